#include "checkpoints/rank_file.h"

#include "checkpoints/json_fields.h"

namespace longspan {
namespace {

void require_requested(const std::stop_token& stop) {
  require(!stop.stop_requested(), "the save was canceled");
}

ManifestPiece write_piece(hdf5::Writer& file,
                          int rank,
                          const std::string& dataset,
                          const StateTensor& tensor,
                          const std::stop_token& stop) {
  const DType dtype = tensor.tensor.dtype();
  const Box box = box_of(tensor.tensor.shape(), tensor.offset);
  const Shape chunk = chunk_shape(box.shape, size_of(dtype));
  hdf5::Dataset target = file.create(dataset, dtype, box.shape, chunk);
  Hasher hasher;
  const Tensor here = tensor.make ? tensor.make() : tensor.tensor.to_host();
  require(here.shape() == tensor.tensor.shape() && here.dtype() == dtype,
          "tensor \"{}\": its factory returned a different shape or dtype",
          tensor.name);
  for_each_chunk(box.shape, chunk, [&](const Box& part, std::int64_t begin) {
    require_requested(stop);
    const std::byte* elements = here.bytes() + static_cast<std::size_t>(begin) * size_of(dtype);
    hasher.add(elements, static_cast<std::size_t>(part.shape.elements()) * size_of(dtype));
    target.write(part, elements);
  });
  target.close();
  return {rank, dataset, box, hasher.result()};
}

void check_state(const TrainingState& state) {
  std::set<std::string> owned;
  for (const StateTensor& piece : state.tensors) {
    check_piece(piece);
    if (piece.owned) owned.insert(piece.name);
  }
  check_folders(owned);
  try {
    json_of(state.scalars).dump();
  } catch (const Json::exception& error) {
    throw Failure("the scalars cannot be written as JSON: {}", error.what());
  }
}

void verify_written(const std::filesystem::path& directory, const RankFileReport& report) {
  const Descriptor descriptor = open_rank_file(directory, report.file);
  const hdf5::Reader file(directory / report.file.name, descriptor.get());
  for (const auto& [name, tensor] : report.tensors)
    for (const ManifestPiece& piece : tensor.pieces)
      read_piece(file, piece, tensor.dtype, [](const Box&, const std::byte*) {});
}

Manifest manifest_of_reports(const CheckpointInfo& info,
                             const std::vector<RankFileReport>& reports) {
  Manifest manifest;
  manifest.info = info;
  manifest.scalars = reports.front().scalars;
  for (const RankFileReport& report : reports) {
    manifest.files.push_back(report.file);
    for (const auto& [name, part] : report.tensors) {
      const auto [entry, added] = manifest.tensors.try_emplace(name, part);
      ManifestTensor& tensor = entry->second;
      require(tensor.dtype == part.dtype && tensor.shape == part.shape,
              "tensor \"{}\": dtype or global shape differs between ranks",
              name);
      if (!added) tensor.pieces.insert(tensor.pieces.end(), part.pieces.begin(), part.pieces.end());
    }
  }
  std::set<std::string> names;
  for (const auto& [name, tensor] : manifest.tensors) {
    std::vector<Box> boxes;
    for (const ManifestPiece& piece : tensor.pieces) boxes.push_back(piece.box);
    const std::string problem = validate_coverage(full_box(tensor.shape).shape, boxes);
    require(problem.empty(), "tensor \"{}\": {}", name, problem);
    names.insert(name);
  }
  check_folders(names);
  return manifest;
}

}  // namespace

std::string RankFileReport::to_text() const {
  Json pieces = Json::object();
  for (const auto& [name, tensor] : tensors) pieces[name] = json_of(tensor);
  // A system message may have arbitrary bytes. All other text is already validated.
  return Json{{"error", error},
              {"file", json_of(file)},
              {"tensors", std::move(pieces)},
              {"scalars", json_of(scalars)}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

RankFileReport RankFileReport::from_text(const std::string& text, int rank) {
  const std::string place = fmt::format("report of rank {}", rank);
  const Json json = parse_json(text, place);
  RankFileReport report;
  report.error = text_of(member(json, "error", place), place);
  report.file = file_of_json(member(json, "file", place), place);
  report.scalars = scalars_of_json(member(json, "scalars", place), place);
  for (const auto& [name, tensor] : member(json, "tensors", place).items())
    report.tensors[name] = tensor_of_json(tensor, name, rank + 1, place);
  return report;
}

void check_folders(const std::set<std::string>& names) {
  for (const std::string& name : names) {
    const auto inside = names.lower_bound(name + "/");
    require(inside == names.end() || !inside->starts_with(name + "/"),
            "tensor \"{}\" has the name of the group of tensor \"{}\"",
            name,
            inside == names.end() ? "" : *inside);
  }
}

void check_piece(const StateTensor& piece) {
  const auto problem = validate_name(piece.name);
  require(problem.empty(), "tensor \"{}\": {}", piece.name, problem);
  require(piece.tensor.defined(), "tensor \"{}\" of the training state is undefined", piece.name);
  require(lies_in(Box{piece.tensor.shape(), piece.offset}, piece.global_shape),
          "tensor \"{}\": piece {} is not within {}",
          piece.name,
          Box{piece.tensor.shape(), piece.offset}.to_string(),
          piece.global_shape.to_string());
}

RankFileReport write_rank_file(const std::filesystem::path& directory,
                               int rank,
                               const TrainingState& state,
                               const std::stop_token& stop) {
  check_state(state);
  RankFileReport report;
  report.file.name = rank_file_name(rank);
  report.scalars = state.scalars;
  const auto path = directory / report.file.name;
  hdf5::Writer file(path);
  for (const StateTensor& piece : state.tensors) {
    if (!piece.owned) continue;
    auto& tensor = report.tensors[piece.name];
    require(tensor.pieces.empty() ||
                (tensor.dtype == piece.tensor.dtype() && tensor.shape == piece.global_shape),
            "tensor \"{}\": dtype or global shape differs between pieces",
            piece.name);
    tensor.dtype = piece.tensor.dtype();
    tensor.shape = piece.global_shape;
    if (piece.tensor.elements() == 0) continue;
    const auto dataset = dataset_name(piece.name, static_cast<int>(tensor.pieces.size()));
    tensor.pieces.push_back(write_piece(file, rank, dataset, piece, stop));
  }
  file.close();
  require_requested(stop);
  // Only fsync may report a failed write to disk.
  sync_file(path);
  try {
    report.file.content = hash_file(open_regular(path), path);
    require_requested(stop);
    verify_written(directory, report);
  } catch (const DataError& error) {
    throw Failure("the written file cannot be read back ({} bytes free on the file system): {}",
                  free_bytes(directory),
                  error.what());
  }
  return report;
}

Descriptor open_rank_file(const std::filesystem::path& directory, const ManifestFile& file) {
  const auto path = directory / file.name;
  Descriptor descriptor = open_regular(path);
  if (const auto bytes = size_of_file(descriptor, path); bytes != file.content.bytes)
    throw DataError("{}: expected {} bytes, as in the manifest, found {}",
                    path.string(),
                    file.content.bytes,
                    bytes);
  return descriptor;
}

void check_file_hash(const Descriptor& descriptor,
                     const std::filesystem::path& directory,
                     const ManifestFile& file,
                     const ReadProgress& watch) {
  const auto path = directory / file.name;
  if (hash_file(descriptor, path, watch).hash != file.content.hash)
    throw DataError("{}: is corrupt: hash differs from the manifest", path.string());
}

std::vector<std::string> rank_file_problems(const Descriptor& descriptor,
                                            const std::filesystem::path& directory,
                                            const ManifestFile& file,
                                            std::span<const FilePiece> pieces,
                                            const ReadProgress& watch) {
  constexpr std::int64_t hashed_in_a_moment = std::int64_t{64} << 20;
  constexpr std::size_t max_problems = 20;
  const bool is_long = file.content.bytes > hashed_in_a_moment;
  if (!is_long) check_file_hash(descriptor, directory, file, watch);
  const hdf5::Reader reader(directory / file.name, descriptor.get());
  std::vector<std::string> problems;
  std::set<std::string> datasets;
  for (const auto& [piece, dtype] : pieces) {
    datasets.insert(piece->dataset);
    if (!is_long || problems.size() == max_problems) continue;
    try {
      reader.open(piece->dataset, dtype, piece->box.shape);
    } catch (const DataError& error) {
      problems.emplace_back(error.what());
    }
  }
  for (std::string& unexpected_name : reader.unexpected(datasets))
    problems.push_back(std::move(unexpected_name));
  if (is_long && problems.empty()) check_file_hash(descriptor, directory, file, watch);
  return problems;
}

void read_piece(const hdf5::Reader& file,
                const ManifestPiece& piece,
                DType dtype,
                const PieceVisitor& visit) {
  hdf5::Dataset dataset = file.open(piece.dataset, dtype, piece.box.shape);
  Hasher hasher;
  for_each_chunk(piece.box.shape, dataset.chunk(), [&](const Box& chunk, std::int64_t) {
    const std::byte* elements = dataset.read(chunk);
    hasher.add(elements, static_cast<std::size_t>(chunk.shape.elements()) * size_of(dtype));
    Box part = chunk;
    for (std::size_t axis = 0; axis < part.offset.size(); ++axis)
      part.offset[axis] += piece.box.offset[axis];
    visit(part, elements);
  });
  if (hasher.result() != piece.hash)
    throw DataError("{}: tensor \"{}\" is corrupt: hash differs from the manifest",
                    rank_file_name(piece.file),
                    piece.dataset);
}

void check_owned_somewhere(const std::vector<DeclaredTensor>& declared,
                           const std::vector<RankFileReport>& reports) {
  for (const DeclaredTensor& tensor : declared) {
    const ManifestTensor* found = nullptr;
    for (const RankFileReport& report : reports)
      if (const auto entry = report.tensors.find(tensor.name); entry != report.tensors.end())
        found = &entry->second;
    require(found != nullptr, "tensor \"{}\": no rank owns a piece", tensor.name);
    require(found->dtype == tensor.dtype && found->shape == tensor.shape,
            "tensor \"{}\": dtype and shape are {} {} here, {} {} on another rank",
            tensor.name,
            name_of(tensor.dtype),
            tensor.shape.to_string(),
            name_of(found->dtype),
            found->shape.to_string());
  }
}

void check_same_scalars(const Scalars& mine, const Scalars& first) {
  // Compared as text, so that NaN equals itself.
  if (json_of(mine).dump() == json_of(first).dump()) return;
  for (const auto& [name, value] : mine.values()) {
    Scalars one, other;
    one.values()[name] = value;
    if (first.has(name)) other.values()[name] = first.values().at(name);
    require(
        json_of(one).dump() == json_of(other).dump(), "scalar \"{}\" differs from rank 0", name);
  }
  throw Failure("rank 0 has scalars that are missing on this rank");
}

void write_manifest(const std::filesystem::path& directory,
                    const CheckpointInfo& info,
                    const std::vector<RankFileReport>& reports) {
  Manifest manifest = manifest_of_reports(info, reports);
  for (const ManifestFile& file : manifest.files) {
    try {
      open_rank_file(directory, file);
    } catch (const DataError& error) {
      throw Failure(
          "rank 0 cannot read the file of another rank; put the directory on a file system that "
          "all nodes share: {}",
          error.what());
    }
  }
  manifest.view = write_view(directory, manifest);
  write_text_file(directory / manifest_name, manifest_text(manifest));
  // Reading back verifies both the disk and the format.
  read_manifest(directory);
  sync_directory(directory);
}

ManifestFile write_view(const std::filesystem::path& directory, const Manifest& manifest) {
  const auto path = directory / view_name;
  hdf5::Writer file(path);
  file.describe("run_id", manifest.info.run_id);
  file.describe("step", fmt::format("{}", manifest.info.step));
  for (const auto& [name, tensor] : manifest.tensors) {
    if (tensor.pieces.empty()) continue;
    std::vector<hdf5::VirtualPart> parts;
    for (const ManifestPiece& piece : tensor.pieces)
      parts.push_back({rank_file_name(piece.file), piece.dataset, piece.box});
    file.create_virtual(name, tensor.dtype, full_box(tensor.shape).shape, parts);
  }
  file.close();
  sync_file(path);
  try {
    const Descriptor written = open_regular(path);
    const hdf5::Reader reader(path, written.get());
    for (const auto& [name, tensor] : manifest.tensors)
      if (!tensor.pieces.empty()) reader.require_virtual(name, tensor.pieces.size());
    return {view_name, hash_file(written, path)};
  } catch (const DataError& error) {
    throw Failure("the written view cannot be read back: {}", error.what());
  }
}

}  // namespace longspan
