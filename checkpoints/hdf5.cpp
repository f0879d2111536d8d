#include "checkpoints/hdf5.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "checkpoints/hdf5_calls.h"

namespace longspan::hdf5 {

static_assert(std::endian::native == std::endian::little,
              "elements are stored as they are in memory, in little-endian order");
static_assert(sizeof(hid_t) == sizeof(Id::Identifier) && sizeof(herr_t) == sizeof(int));

std::string reason() {
  std::string text;
  H5Ewalk2(
      H5E_DEFAULT,
      H5E_WALK_UPWARD,
      [](unsigned, const H5E_error2_t* entry, void* out) -> herr_t {
        auto& found = *static_cast<std::string*>(out);
        if (found.empty() && entry->desc) found = entry->desc;
        return 0;
      },
      &text);
  constexpr std::string_view key = "error message = '";
  if (const auto begin = text.find(key); begin != std::string::npos) {
    const auto from = begin + key.size();
    return text.substr(from, text.find('\'', from) - from);
  }
  return text.empty() ? "HDF5 reports no reason" : text;
}

hid_t stored_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return H5T_IEEE_F64LE;
    case DType::f32:
      return H5T_IEEE_F32LE;
    case DType::bf16:
    case DType::f16:
      return H5T_STD_U16LE;
    case DType::i64:
      return H5T_STD_I64LE;
    case DType::i32:
      return H5T_STD_I32LE;
    case DType::u8:
      return H5T_STD_U8LE;
  }
  return H5I_INVALID_HID;
}

Extents extents_of(std::span<const std::int64_t> values) {
  Extents result{};
  std::ranges::transform(
      values, result.begin(), [](std::int64_t value) { return static_cast<hsize_t>(value); });
  return result;
}
namespace {

template <typename E>
Id space_of(const Shape& shape, const std::string& place) {
  const Extents extents = extents_of(shape);
  return opened<E>(H5Screate_simple(shape.dimensions(), extents.data(), nullptr),
                   H5Sclose,
                   place,
                   "describe a shape");
}

template <typename E>
void select(const Id& space, const Box& box, const std::string& place) {
  const Extents offset = extents_of(box.offset);
  const Extents count = extents_of(box.shape);
  check<E>(H5Sselect_hyperslab(
               space.get(), H5S_SELECT_SET, offset.data(), nullptr, count.data(), nullptr),
           place,
           "select a box");
}

void write_text(const Id& object,
                const char* name,
                std::string_view text,
                const std::string& place) {
  const Id type = opened<Failure>(H5Tcopy(H5T_C_S1), H5Tclose, place, "describe an attribute");
  check<Failure>(H5Tset_size(type.get(), std::max<std::size_t>(text.size(), 1)),
                 place,
                 "describe an attribute");
  check<Failure>(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), place, "describe an attribute");
  check<Failure>(H5Tset_cset(type.get(), H5T_CSET_UTF8), place, "describe an attribute");
  const Id space = opened<Failure>(H5Screate(H5S_SCALAR), H5Sclose, place, "describe an attribute");
  const Id attribute = opened<Failure>(
      H5Acreate2(object.get(), name, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose,
      place,
      "create an attribute");
  const std::string padded = text.empty() ? std::string(1, '\0') : std::string(text);
  check<Failure>(H5Awrite(attribute.get(), type.get(), padded.data()), place, "write an attribute");
}

Id creation_of_folders(const std::string& place) {
  Id properties = opened<Failure>(H5Pcreate(H5P_LINK_CREATE), H5Pclose, place, "set up a link");
  check<Failure>(H5Pset_create_intermediate_group(properties.get(), 1), place, "set up a link");
  return properties;
}

}  // namespace

Id::Id(Id&& other) noexcept
    : id_(std::exchange(other.id_, -1)), closer_(std::exchange(other.closer_, nullptr)) {}

Id& Id::operator=(Id&& other) noexcept {
  std::swap(id_, other.id_);
  std::swap(closer_, other.closer_);
  return *this;
}

Id::~Id() {
  const Quiet quiet;
  close();
}

bool Id::close() {
  const Identifier id = std::exchange(id_, -1);
  return id < 0 || closer_(id) >= 0;
}

Dataset::Dataset(Id id, std::string place, DType dtype, Shape chunk)
    : id_(std::move(id)),
      place_(std::move(place)),
      dtype_(dtype),
      chunk_(chunk),
      chunk_bytes_(static_cast<std::size_t>(chunk.elements()) * size_of(dtype)),
      stored_(chunk_bytes_ + sizeof(std::uint32_t)) {}

void Dataset::write(const Box& box, const std::byte* elements) {
  const Quiet quiet;
  const auto bytes = static_cast<std::size_t>(box.shape.elements()) * size_of(dtype_);
  std::memcpy(stored_.data(), elements, bytes);
  // A chunk at the edge is stored in full size.
  std::memset(stored_.data() + bytes, 0, chunk_bytes_ - bytes);
  const std::uint32_t checksum = fletcher32(stored_.data(), chunk_bytes_);
  std::memcpy(stored_.data() + chunk_bytes_, &checksum, sizeof(checksum));
  const Extents offset = extents_of(box.offset);
  check<Failure>(
      H5Dwrite_chunk(id_.get(), H5P_DEFAULT, 0, offset.data(), stored_.size(), stored_.data()),
      place_,
      "write");
}

const std::byte* Dataset::read(const Box& box) {
  const Quiet quiet;
  const Extents offset = extents_of(box.offset);
  hsize_t bytes = 0;
  check<DataError>(
      H5Dget_chunk_storage_size(id_.get(), offset.data(), &bytes), place_, "find a chunk");
  if (bytes != stored_.size())
    throw DataError("{}: expected a chunk of {} bytes, found {}", place_, stored_.size(), bytes);
  std::uint32_t skipped = 0;
  check<DataError>(H5Dread_chunk(id_.get(), H5P_DEFAULT, offset.data(), &skipped, stored_.data()),
                   place_,
                   "read");
  std::uint32_t checksum = 0;
  std::memcpy(&checksum, stored_.data() + chunk_bytes_, sizeof(checksum));
  if (skipped != 0 || checksum != fletcher32(stored_.data(), chunk_bytes_))
    throw DataError("{}: checksum mismatch in a chunk", place_);
  return stored_.data();
}

void Dataset::close() {
  const Quiet quiet;
  if (!id_.close()) throw Failure("{}: cannot write: {}", place_, reason());
}

Writer::Writer(const std::filesystem::path& path) : path_(path) {
  const Quiet quiet;
  const Id access = access_properties<Failure>(path_.string());
  file_ = opened<Failure>(H5Fcreate(path_.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access.get()),
                          H5Fclose,
                          path_.string(),
                          "create the file");
}

Dataset Writer::create(const std::string& name,
                       DType dtype,
                       const Shape& shape,
                       const Shape& chunk) {
  const Quiet quiet;
  std::string place = fmt::format("{}: tensor \"{}\"", path_.string(), name);
  const Id space = space_of<Failure>(shape, place);
  const Id links = creation_of_folders(place);
  const Id layout =
      opened<Failure>(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, place, "set up a dataset");
  const Extents extents = extents_of(chunk);
  check<Failure>(
      H5Pset_chunk(layout.get(), chunk.dimensions(), extents.data()), place, "set up chunks");
  check<Failure>(H5Pset_fletcher32(layout.get()), place, "set up the checksum");
  Id dataset = opened<Failure>(H5Dcreate2(file_.get(),
                                          name.c_str(),
                                          stored_type(dtype),
                                          space.get(),
                                          links.get(),
                                          layout.get(),
                                          H5P_DEFAULT),
                               H5Dclose,
                               place,
                               "create the dataset");
  write_text(dataset, dtype_attribute, name_of(dtype), place);
  return {std::move(dataset), std::move(place), dtype, chunk};
}

void Writer::create_virtual(const std::string& name,
                            DType dtype,
                            const Shape& shape,
                            const std::vector<VirtualPart>& parts) {
  const Quiet quiet;
  const std::string place = fmt::format("{}: tensor \"{}\"", path_.string(), name);
  const Id space = space_of<Failure>(shape, place);
  const Id links = creation_of_folders(place);
  const Id layout =
      opened<Failure>(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, place, "set up a dataset");
  for (const VirtualPart& part : parts) {
    const Id target = space_of<Failure>(shape, place);
    select<Failure>(target, part.box, place);
    const Id source = space_of<Failure>(part.box.shape, place);
    check<Failure>(
        H5Pset_virtual(
            layout.get(), target.get(), part.file.c_str(), part.dataset.c_str(), source.get()),
        place,
        "map a piece");
  }
  const Id dataset = opened<Failure>(H5Dcreate2(file_.get(),
                                                name.c_str(),
                                                stored_type(dtype),
                                                space.get(),
                                                links.get(),
                                                layout.get(),
                                                H5P_DEFAULT),
                                     H5Dclose,
                                     place,
                                     "create the virtual dataset");
  write_text(dataset, dtype_attribute, name_of(dtype), place);
}

void Writer::describe(const std::string& name, const std::string& text) {
  const Quiet quiet;
  const Id root = opened<Failure>(
      H5Gopen2(file_.get(), "/", H5P_DEFAULT), H5Gclose, path_.string(), "open the root");
  write_text(root, name.c_str(), text, path_.string());
}

void Writer::close() {
  const Quiet quiet;
  check<Failure>(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL), path_.string(), "flush the file");
  if (!file_.close()) throw Failure("{}: cannot close: {}", path_.string(), reason());
}

}  // namespace longspan::hdf5

namespace longspan {

namespace {

constexpr std::size_t lanes = 32;
// Largest number of rows before the 32-bit second-order sums can overflow.
constexpr std::size_t max_rows = 256;

// Sum modulo 65535. HDF5 represents 0 as 65535 unless all words are 0.
std::uint32_t folded(std::uint64_t sum) {
  return sum == 0 ? 0 : static_cast<std::uint32_t>((sum - 1) % 65535 + 1);
}

std::uint16_t big_endian(std::uint16_t word) {
  return static_cast<std::uint16_t>(word << 8 | word >> 8);
}

}  // namespace

std::uint32_t fletcher32(const std::byte* bytes, std::size_t size) {
  std::uint64_t first = 0, second = 0;  // sum of the words, sum of the partial sums
  std::size_t words = size / 2;
  while (words >= lanes) {
    // Rows of `lanes` words. Each lane sums its column and the column's partial sums.
    const std::size_t rows = std::min(words / lanes, max_rows);
    std::array<std::uint32_t, lanes> sums{}, sums_of_sums{};
    for (std::size_t row = 0; row < rows; ++row) {
      std::array<std::uint16_t, lanes> word;
      std::memcpy(word.data(), bytes + row * sizeof(word), sizeof(word));
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        sums[lane] += big_endian(word[lane]);
        sums_of_sums[lane] += sums[lane];
      }
    }
    second += rows * lanes * first;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      // A word counts once for each word from its position to the end.
      first += sums[lane];
      second += lanes * std::uint64_t{sums_of_sums[lane]} - lane * std::uint64_t{sums[lane]};
    }
    first = folded(first);
    second = folded(second);
    bytes += rows * lanes * 2;
    words -= rows * lanes;
  }
  for (; words > 0; --words, bytes += 2) {
    std::uint16_t word = 0;
    std::memcpy(&word, bytes, 2);
    first += big_endian(word);
    second += first;
  }
  if (size % 2 != 0) {
    first += std::to_integer<std::uint64_t>(*bytes) << 8;
    second += first;
  }
  return folded(second) << 16 | folded(first);
}

}  // namespace longspan
