#include <algorithm>
#include <exception>
#include <set>
#include <span>

#include "checkpoints/checkpoint.h"
#include "checkpoints/json_fields.h"
#include "checkpoints/rank_file.h"
#include "checkpoints/step_directory.h"
#include "framework/core/format.h"

namespace longspan {
namespace {

using Problems = std::vector<CheckpointProblem>;

constexpr std::size_t max_problems = 100;  // per file; more would add no information

// Runs f and collects its error, unless a stop was requested.
template <typename F>
void collect(Problems& problems, bool prevents_reading, F&& f) {
  try {
    f();
  } catch (const Error& error) {
    if (error.code() == ExitCode::stopped) throw;
    problems.push_back({error.what(), prevents_reading});
  } catch (const std::exception& error) {
    problems.push_back({error.what(), prevents_reading});
  }
}

void verify_rank_file(const std::filesystem::path& path,
                      const ManifestFile& entry,
                      std::span<const FilePiece> pieces,
                      const ReadProgress& watch,
                      Problems& problems) {
  const Descriptor descriptor = open_rank_file(path, entry);
  for (std::string& sentence : rank_file_problems(descriptor, path, entry, pieces, watch))
    problems.push_back({std::move(sentence), true});
  if (!problems.empty()) return;
  const hdf5::Reader file(path / entry.name, descriptor.get());
  for (const auto& [piece, dtype] : pieces) {
    if (problems.size() >= max_problems) break;
    collect(problems, true, [&, &piece = piece, &dtype = dtype] {
      read_piece(file, *piece, dtype, [&](const Box& part, const std::byte*) {
        if (watch) watch(part.shape.elements() * static_cast<std::int64_t>(size_of(dtype)));
      });
    });
  }
}

void verify_view(const std::filesystem::path& path, const Manifest& manifest) {
  check_file_hash(open_rank_file(path, manifest.view), path, manifest.view);
}

void find_unexpected(const std::filesystem::path& path,
                     const Manifest& manifest,
                     Problems& problems) {
  std::set<std::string> expected = {manifest_name, view_name};
  for (const ManifestFile& file : manifest.files) expected.insert(file.name);
  for (const std::string& name : list_directory(path))
    if (!expected.contains(name))
      problems.push_back(
          {fmt::format("{}: unexpected file in the checkpoint", (path / name).string()), false});
}

// Verifies this rank's share of the files.
Problems verify_share(const std::filesystem::path& path,
                      const Communicator& world,
                      const CheckpointValidator& judge,
                      const ReadProgress& watch) {
  Problems problems;
  collect(problems, true, [&] {
    const Checkpoint checkpoint = Checkpoint::open(path);
    if (judge && world.rank() == 0)
      collect(problems, true, [&] {
        for (std::string& sentence : judge(checkpoint))
          problems.push_back({std::move(sentence), true});
      });
    const Manifest manifest = read_manifest(path);
    const auto pieces = pieces_by_file(manifest);
    for (auto file = static_cast<std::size_t>(world.rank()); file < pieces.size();
         file += static_cast<std::size_t>(world.size())) {
      Problems found;
      collect(found, true, [&] {
        verify_rank_file(path, manifest.files[file], pieces[file], watch, found);
      });
      problems.insert(problems.end(), found.begin(), found.end());
    }
    if (world.rank() != 0) return;
    collect(problems, false, [&] { verify_view(path, manifest); });
    collect(problems, false, [&] { find_unexpected(path, manifest, problems); });
  });
  return problems;
}

struct FoundSteps {
  std::vector<std::int64_t> saved;
  std::vector<std::pair<std::int64_t, std::string>> moved_aside;  // each with a message
};

// Returns the steps that rank 0 finds, or rethrows its error.
FoundSteps agreed_steps(const std::filesystem::path& directory, const Communicator& world) {
  Json listed = Json::object();
  if (world.rank() == 0) try {
      remove_leftovers(directory);
      listed["steps"] = steps_in(directory);
      listed["moved_aside"] = steps_moved_aside(directory);
    } catch (const DataError& error) {
      listed["error"] = error.what();
    }
  listed =
      Json::parse(world.broadcast(listed.dump(-1, ' ', false, Json::error_handler_t::replace), 0));
  if (listed.contains("error")) throw DataError("{}", listed["error"].get<std::string>());
  return {listed["steps"].get<std::vector<std::int64_t>>(),
          listed["moved_aside"].get<std::vector<std::pair<std::int64_t, std::string>>>()};
}

}  // namespace

Problems verify_checkpoint(const std::filesystem::path& path,
                           const Communicator& world,
                           const CheckpointValidator& judge,
                           const ReadProgress& watch) {
  Json mine = Json::array();
  for (const auto& [sentence, prevents] : verify_share(path, world, judge, watch))
    mine.push_back({{"message", sentence}, {"prevents_reading", prevents}});
  Problems problems;
  for (const std::string& text :
       world.all_gather(mine.dump(-1, ' ', false, Json::error_handler_t::replace)))
    for (const Json& entry : Json::parse(text)) {
      const auto sentence = entry.at("message").get<std::string>();
      // All ranks find an equal error of the manifest.
      if (std::ranges::find(problems, sentence, &CheckpointProblem::message) == problems.end())
        problems.push_back({sentence, entry.at("prevents_reading").get<bool>()});
    }
  return problems;
}

CheckpointSearch latest_valid_checkpoint(const std::filesystem::path& directory,
                                         const Communicator& world,
                                         const CheckpointValidator& judge,
                                         const ReadProgress& watch) {
  CheckpointSearch search;
  FoundSteps steps = agreed_steps(directory, world);
  std::int64_t newest_passed_over = -1;
  for (auto& [step, sentence] : steps.moved_aside) {
    newest_passed_over = std::max(newest_passed_over, step);
    search.skipped.push_back(std::move(sentence));
  }
  std::ranges::reverse(steps.saved);
  for (const auto step : steps.saved) {
    const auto path = directory / step_name(step);
    Problems problems = verify_checkpoint(path, world, judge, watch);
    std::erase_if(problems, [](const auto& problem) { return !problem.prevents_reading; });
    if (problems.empty()) {
      search.found = LatestCheckpoint{path, step};
      search.rolls_back = newest_passed_over > step;
      return search;
    }
    newest_passed_over = std::max(newest_passed_over, step);
    search.skipped.push_back(fmt::format(
        "{}{}",
        problems.front().message,
        problems.size() > 1
            ? fmt::format(" (and {})", pluralize(std::ssize(problems) - 1, "more problem"))
            : ""));
  }
  return search;
}

}  // namespace longspan
