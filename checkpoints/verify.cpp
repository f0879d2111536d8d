#include <algorithm>
#include <exception>
#include <set>

#include "checkpoints/checkpoint.h"
#include "checkpoints/json_fields.h"
#include "checkpoints/rank_file.h"
#include "checkpoints/step_directory.h"

namespace longspan {
namespace {

using Problems = std::vector<CheckpointProblem>;

// Runs f; what it throws becomes a problem.
template <typename F>
void collect(Problems& problems, bool prevents_reading, F&& f) {
  try {
    f();
  } catch (const std::exception& error) {
    problems.push_back({error.what(), prevents_reading});
  }
}

void verify_rank_file(const std::filesystem::path& path,
                      const Manifest& manifest,
                      int number,
                      Problems& problems) {
  const ManifestFile& entry = manifest.files[static_cast<std::size_t>(number)];
  const Descriptor descriptor = open_rank_file(path, entry);
  // HDF5 gets to parse only what was written.
  check_file_hash(descriptor, path, entry);
  const hdf5::Reader file(path / entry.name, descriptor.get());
  std::set<std::string> datasets;
  for (const auto& [name, tensor] : manifest.tensors)
    for (const ManifestPiece& piece : tensor.pieces) {
      if (piece.file != number) continue;
      datasets.insert(piece.dataset);
      collect(problems, true, [&] {
        read_piece(file, piece, tensor.dtype, [](const Box&, const std::byte*) {});
      });
    }
  for (const auto& stranger : file.strangers(datasets)) problems.push_back({stranger, true});
}

void verify_view(const std::filesystem::path& path, const Manifest& manifest) {
  check_file_hash(open_rank_file(path, manifest.view), path, manifest.view);
}

void find_strangers(const std::filesystem::path& path,
                    const Manifest& manifest,
                    Problems& problems) {
  std::set<std::string> expected = {manifest_name, view_name};
  for (const ManifestFile& file : manifest.files) expected.insert(file.name);
  for (const auto& entry : std::filesystem::directory_iterator(path))
    if (!expected.contains(entry.path().filename().string()))
      problems.push_back(
          {fmt::format("{}: it does not belong to the checkpoint", entry.path().string()), false});
}

// This rank's share.
Problems verify_share(const std::filesystem::path& path, int rank, int size) {
  Problems problems;
  collect(problems, true, [&] {
    Checkpoint::open(path);
    const Manifest manifest = read_manifest(path);
    for (int file = rank; file < static_cast<int>(manifest.files.size()); file += size)
      collect(problems, true, [&] { verify_rank_file(path, manifest, file, problems); });
    if (rank != 0) return;
    collect(problems, false, [&] { verify_view(path, manifest); });
    collect(problems, false, [&] { find_strangers(path, manifest, problems); });
  });
  return problems;
}

}  // namespace

Problems verify_checkpoint(const std::filesystem::path& path, const Communicator& world) {
  Json mine = Json::array();
  for (const auto& [sentence, prevents] : verify_share(path, world.rank(), world.size()))
    mine.push_back({{"sentence", sentence}, {"prevents_reading", prevents}});
  Problems problems;
  for (const std::string& text :
       world.all_gather(mine.dump(-1, ' ', false, Json::error_handler_t::replace)))
    for (const Json& entry : Json::parse(text)) {
      const auto sentence = entry.at("sentence").get<std::string>();
      // All ranks find the same fault of the manifest.
      if (std::ranges::find(problems, sentence, &CheckpointProblem::sentence) == problems.end())
        problems.push_back({sentence, entry.at("prevents_reading").get<bool>()});
    }
  return problems;
}

CheckpointSearch latest_good_checkpoint(const std::filesystem::path& directory,
                                        const Communicator& world) {
  std::string listed;
  if (world.rank() == 0) {
    remove_leftovers(directory);
    listed = Json(steps_in(directory)).dump();
  }
  auto steps = Json::parse(world.broadcast(listed, 0)).get<std::vector<std::int64_t>>();
  std::ranges::reverse(steps);
  CheckpointSearch search;
  for (const auto step : steps) {
    const auto path = directory / step_name(step);
    Problems problems = verify_checkpoint(path, world);
    std::erase_if(problems, [](const auto& problem) { return !problem.prevents_reading; });
    if (problems.empty()) {
      search.found = LatestCheckpoint{path, step};
      return search;
    }
    search.skipped.push_back(fmt::format(
        "{}{}",
        problems.front().sentence,
        problems.size() > 1 ? fmt::format(" (and {} more problems)", problems.size() - 1) : ""));
  }
  return search;
}

}  // namespace longspan
