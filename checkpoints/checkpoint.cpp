#include "checkpoints/checkpoint.h"

#include <algorithm>
#include <mutex>

#include "checkpoints/rank_file.h"
#include "checkpoints/step_directory.h"

namespace longspan {

struct Checkpoint::State {
  std::filesystem::path path;
  ReadProgress watch;
  Manifest manifest;
  std::vector<CheckpointTensor> tensors;
  std::mutex mutex;
  std::vector<std::vector<FilePiece>> pieces;  // per file
  std::vector<bool> checked;                   // per file

  std::string place() const { return (path / manifest_name).string(); }
  const ManifestTensor& tensor(const std::string& name) const;
  hdf5::Reader open_file(std::size_t file);
};

const ManifestTensor& Checkpoint::State::tensor(const std::string& name) const {
  const auto found = manifest.tensors.find(name);
  if (found == manifest.tensors.end()) throw DataError("{}: no such tensor \"{}\"", place(), name);
  return found->second;
}

// A file is verified as a whole before any part of it is read.
hdf5::Reader Checkpoint::State::open_file(std::size_t file) {
  const std::lock_guard guard(mutex);
  const ManifestFile& entry = manifest.files[file];
  const Descriptor descriptor = open_rank_file(path, entry);
  if (!checked[file]) {
    const auto problems = rank_file_problems(descriptor, path, entry, pieces[file], watch);
    if (!problems.empty()) throw DataError("{}", problems.front());
  }
  checked[file] = true;
  return hdf5::Reader(path / entry.name, descriptor.get());
}

namespace {

// A piece, and the indices of the boxes that it overlaps.
struct Use {
  const ManifestPiece* piece;
  DType dtype;
  std::vector<std::size_t> boxes;
};

void check_matches(const StateTensor& wanted,
                   const ManifestTensor& found,
                   const std::string& place) {
  check_piece(wanted);
  if (found.dtype != wanted.tensor.dtype())
    throw DataError("{}: tensor \"{}\": expected dtype {}, found {}",
                    place,
                    wanted.name,
                    name_of(wanted.tensor.dtype()),
                    name_of(found.dtype));
  if (found.shape != wanted.global_shape)
    throw DataError("{}: tensor \"{}\": expected shape {}, found {}",
                    place,
                    wanted.name,
                    wanted.global_shape.to_string(),
                    found.shape.to_string());
}

// Groups the reads by file, so that each file is opened and each piece read once.
std::vector<std::vector<Use>> uses_of(std::span<const StateTensor> tensors,
                                      const std::vector<Box>& boxes,
                                      const Manifest& manifest) {
  std::map<const ManifestPiece*, Use> by_piece;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].tensor.elements() == 0) continue;
    const ManifestTensor& whole = manifest.tensors.at(tensors[i].name);
    for (const ManifestPiece& piece : whole.pieces) {
      if (!overlap(piece.box, boxes[i])) continue;
      const auto entry = by_piece.try_emplace(&piece, Use{&piece, whole.dtype, {}}).first;
      entry->second.boxes.push_back(i);
    }
  }
  std::vector<std::vector<Use>> result(manifest.files.size());
  for (auto& [piece, use] : by_piece)
    result[static_cast<std::size_t>(piece->file)].push_back(std::move(use));
  return result;
}

}  // namespace

Checkpoint::Checkpoint(std::shared_ptr<State> state) : state_(std::move(state)) {}

Checkpoint Checkpoint::open(const std::filesystem::path& path, ReadProgress watch) {
  auto state = std::make_shared<State>();
  state->watch = std::move(watch);
  state->path = path;
  if (!path.has_filename()) state->path = path.parent_path();  // "step-000000500/"
  std::error_code error;
  if (!std::filesystem::is_directory(path, error))
    throw DataError("{}: no such directory", path.string());
  state->manifest = read_manifest(path);
  const auto entry = step_entry(state->path.filename().string());
  if (entry && entry->use == StepUse::saved && entry->step != state->manifest.info.step)
    throw DataError("{}: expected the directory name of step {}, as in its manifest",
                    path.string(),
                    state->manifest.info.step);
  for (const ManifestFile& file : state->manifest.files) open_rank_file(path, file);
  for (const auto& [name, tensor] : state->manifest.tensors)
    state->tensors.push_back(
        {name, tensor.dtype, tensor.shape, static_cast<int>(tensor.pieces.size())});
  state->pieces = pieces_by_file(state->manifest);
  state->checked.resize(state->manifest.files.size(), false);
  return Checkpoint(std::move(state));
}

const std::filesystem::path& Checkpoint::path() const { return state_->path; }
const CheckpointInfo& Checkpoint::info() const { return state_->manifest.info; }
const Scalars& Checkpoint::scalars() const { return state_->manifest.scalars; }
const std::vector<CheckpointTensor>& Checkpoint::tensors() const { return state_->tensors; }
bool Checkpoint::has(const std::string& name) const {
  return state_->manifest.tensors.contains(name);
}
const Shape& Checkpoint::shape_of(const std::string& name) const {
  return state_->tensor(name).shape;
}
DType Checkpoint::dtype_of(const std::string& name) const { return state_->tensor(name).dtype; }

std::int64_t Checkpoint::file_bytes() const {
  std::int64_t bytes = state_->manifest.view.content.bytes;
  for (const ManifestFile& file : state_->manifest.files) bytes += file.content.bytes;
  return bytes;
}

void Checkpoint::read(const StateTensor& tensor) const { read(std::span(&tensor, 1)); }

void Checkpoint::read(TrainingState& state) const {
  read(std::span<const StateTensor>(state.tensors));
  state.scalars = scalars();
}

void Checkpoint::read(std::span<const StateTensor> tensors) const {
  std::vector<Box> boxes;
  std::vector<Tensor> here;           // host destinations
  const Device host = Device::cpu();  // unlike pinned memory, it is released after use
  for (const StateTensor& tensor : tensors) {
    check_matches(tensor, state_->tensor(tensor.name), state_->place());
    boxes.push_back(box_of(tensor.tensor.shape(), tensor.offset));
    const Tensor& wanted = tensor.tensor;
    here.push_back(wanted.device().on_gpu() ? Tensor::empty(wanted.shape(), wanted.dtype(), host)
                                            : wanted);
  }
  std::vector<std::int64_t> filled(tensors.size(), 0);
  const auto uses = uses_of(tensors, boxes, state_->manifest);
  for (std::size_t file = 0; file < uses.size(); ++file) {
    if (uses[file].empty()) continue;
    const hdf5::Reader reader = state_->open_file(file);
    for (const Use& use : uses[file])
      read_piece(reader, *use.piece, use.dtype, [&](const Box& part, const std::byte* elements) {
        for (const std::size_t i : use.boxes)
          filled[i] += copy_overlap(size_of(use.dtype), part, elements, boxes[i], here[i].bytes());
      });
  }
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (filled[i] != tensors[i].tensor.elements())
      throw DataError("{}: tensor \"{}\": expected {} elements in the piece, found {}",
                      state_->place(),
                      tensors[i].name,
                      tensors[i].tensor.elements(),
                      filled[i]);
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].tensor.copy_from(here[i]);
}

}  // namespace longspan
