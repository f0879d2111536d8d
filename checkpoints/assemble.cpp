#include "checkpoints/assemble.h"

#include <set>

#include "checkpoints/json_fields.h"
#include "checkpoints/view.h"

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
              "tensor \"{}\": two ranks give it different dtypes or global shapes",
              name);
      if (!added) tensor.pieces.insert(tensor.pieces.end(), part.pieces.begin(), part.pieces.end());
    }
  }
  std::set<std::string> names;
  for (const auto& [name, tensor] : manifest.tensors) {
    std::vector<Box> boxes;
    for (const ManifestPiece& piece : tensor.pieces) boxes.push_back(piece.box);
    const std::string problem = coverage_problem(whole_box(tensor.shape).shape, boxes);
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
    require(found != nullptr, "tensor \"{}\": no rank owns any of it", tensor.name);
    require(found->dtype == tensor.dtype && found->shape == tensor.shape,
            "tensor \"{}\": it is {} {} here and {} {} on another rank",
            tensor.name,
            name_of(tensor.dtype),
            tensor.shape.to_string(),
            name_of(found->dtype),
            found->shape.to_string());
  }
}

void check_same_scalars(const Scalars& mine, const Scalars& first) {
  // As text, so that a NaN equals itself.
  if (json_of(mine).dump() == json_of(first).dump()) return;
  for (const auto& [name, value] : mine.values()) {
    Scalars one, other;
    one.values()[name] = value;
    if (first.has(name)) other.values()[name] = first.values().at(name);
    require(json_of(one).dump() == json_of(other).dump(),
            "scalar \"{}\" is not what it is on rank 0",
            name);
  }
  throw Failure("rank 0 has scalars that this rank lacks");
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
          "rank 0 does not see what another rank wrote: the directory must be on a file system "
          "that all nodes share: {}",
          error.what());
    }
  }
  manifest.view = write_view(directory, manifest);
  write_text_file(directory / manifest_name, manifest_text(manifest));
  // Reading it back is the last check of the disk and the first of the text.
  read_manifest(directory);
  sync_directory(directory);
}

}  // namespace longspan
