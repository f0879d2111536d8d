// Rank files of a checkpoint with valid hashes, as an attacker would supply them.
// First byte: 0 (modulo 2): the rest is the file; 1: the rest changes a valid file. A change has 3
// bytes: a position (2) and a value. The HDF5 checksums are recomputed after the changes.
#include <cstring>
#include <utility>

#include "checkpoints/rank_file.h"
#include "tests/fuzz/fuzzing.h"

// Checksum of HDF5 structures, exported by the library but not declared in its headers.
extern "C" std::uint32_t H5_checksum_lookup3(const void* bytes,
                                             std::size_t count,
                                             std::uint32_t before);

namespace longspan::fuzzing {
namespace {

constexpr std::size_t checksum_bytes = 4;
constexpr std::size_t longest_structure = 4096;
constexpr const char* signatures[] = {"\x89HDF",
                                      "OHDR",
                                      "OCHK",
                                      "FRHP",
                                      "FHDB",
                                      "FHIB",
                                      "BTHD",
                                      "BTIN",
                                      "BTLF",
                                      "FAHD",
                                      "FADB",
                                      "EAHD",
                                      "EAIB",
                                      "EASB",
                                      "EADB",
                                      "FSHD",
                                      "FSSE"};

// A valid rank file, and the ranges of its structures that are followed by a checksum.
struct OwnFile {
  std::string bytes;
  std::map<std::string, ManifestTensor> tensors;
  std::vector<std::pair<std::size_t, std::size_t>> structures;

  std::uint32_t checksum_of(std::size_t begin, std::size_t end) const {
    return H5_checksum_lookup3(bytes.data() + begin, end - begin, 0);
  }
  std::uint32_t checksum_at(std::size_t place) const {
    std::uint32_t sum = 0;
    std::memcpy(&sum, bytes.data() + place, checksum_bytes);
    return sum;
  }
  void find_structures() {
    for (const std::string_view signature : signatures)
      for (std::size_t at = 0; (at = bytes.find(signature, at)) != std::string::npos; ++at)
        for (std::size_t end = at + signature.size();
             end + checksum_bytes <= bytes.size() && end < at + longest_structure;
             ++end)
          if (checksum_of(at, end) == checksum_at(end)) structures.emplace_back(at, end);
    expect(structures.size() > 3, "the structures of a file are not found");
  }
};

OwnFile written_file() {
  const InputFolder folder;
  TrainingState state;
  for (const auto& [name, shape, dtype] : {std::tuple("layer/0/weight", Shape{6, 4}, DType::f32),
                                           std::tuple("layer/0/bias", Shape{4}, DType::bf16),
                                           std::tuple("step", Shape{}, DType::i64)}) {
    const Tensor tensor = Tensor::empty(shape, dtype, Device::cpu());
    std::memset(tensor.bytes(), 1, tensor.byte_size());
    state.add(name, tensor, true);
  }
  OwnFile file;
  file.tensors = write_rank_file(folder.path(), 0, state).tensors;
  std::ifstream stream(folder.path() / rank_file_name(0), std::ios::binary);
  file.bytes.assign(std::istreambuf_iterator<char>(stream), {});
  file.find_structures();
  return file;
}

std::string changed(OwnFile file, std::string_view changes) {
  for (; changes.size() >= 3; changes.remove_prefix(3)) {
    const auto place = static_cast<unsigned char>(changes[0]) * std::size_t{256} +
                       static_cast<unsigned char>(changes[1]);
    file.bytes[place % file.bytes.size()] = changes[2];
  }
  for (const auto& [begin, end] : file.structures) {
    const std::uint32_t sum = file.checksum_of(begin, end);
    std::memcpy(file.bytes.data() + end, &sum, checksum_bytes);
  }
  return std::move(file.bytes);
}

void read_file(std::string_view bytes) {
  static const InputFolder folder;
  static const OwnFile own = written_file();
  const bool is_complete = take_byte(bytes) % 2 == 0;
  ManifestFile file = {.name = rank_file_name(0), .content = {}};
  const std::filesystem::path path =
      folder.put(file.name, is_complete ? std::string(bytes) : changed(own, bytes));
  file.content = hash_file(open_regular(path), path);
  std::vector<FilePiece> pieces;
  for (const auto& [name, tensor] : own.tensors)
    for (const ManifestPiece& piece : tensor.pieces) pieces.push_back({&piece, tensor.dtype});
  const Descriptor descriptor = open_rank_file(folder.path(), file);
  is_read([&] { rank_file_problems(descriptor, folder.path(), file, pieces); });
  const hdf5::Reader reader(path, descriptor.get());
  for (const FilePiece& each : pieces) {
    const ManifestPiece& piece = *each.piece;
    is_read([&] { reader.open(piece.dataset, each.dtype, piece.box.shape); });
    is_read([&] { read_piece(reader, piece, each.dtype, [](const Box&, const std::byte*) {}); });
    is_read([&] { reader.require_virtual(piece.dataset, 1); });
  }
}

}  // namespace
}  // namespace longspan::fuzzing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return longspan::fuzzing::fuzz(data, size, longspan::fuzzing::read_file);
}
