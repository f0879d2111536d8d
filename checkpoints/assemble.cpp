#include "checkpoints/assemble.h"

#include <set>

#include "checkpoints/hdf5.h"
#include "checkpoints/json_fields.h"

namespace longspan {

namespace {

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
