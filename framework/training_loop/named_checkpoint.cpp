#include "framework/training_loop/named_checkpoint.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

#include "checkpoints/step_directory.h"
#include "framework/training_loop/best_step.h"
#include "framework/training_loop/checkpoint_values.h"
#include "framework/training_loop/run_directory.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code unused;
  return fs::is_directory(path, unused);
}

bool is_any(const fs::path& path) {
  std::error_code unused;
  return fs::exists(path, unused);
}

// Parses "step-000000080" or "80".
std::optional<std::int64_t> step_of(const std::string& name) {
  if (const auto entry = step_entry(name); entry && entry->use == StepUse::saved)
    return entry->step;
  constexpr std::size_t max_digits = 9;
  if (name.empty() || name.size() > max_digits ||
      !std::ranges::all_of(name, [](char letter) { return letter >= '0' && letter <= '9'; }))
    return std::nullopt;
  std::int64_t step = 0;
  std::from_chars(name.data(), name.data() + name.size(), step);
  return step;
}

// Returns the folder whose newest step is selected, or nothing.
std::optional<fs::path> folder_of_steps(const fs::path& path) {
  if (is_any(path / "manifest.json")) return std::nullopt;
  for (const fs::path& folder : {path / checkpoints_name, path})
    if (!steps_in(folder).empty()) return folder;
  // A run without checkpoints.
  if (is_folder(path / checkpoints_name)) return path / checkpoints_name;
  return std::nullopt;
}

fs::path step_of_run(const ConfigPath& name, std::int64_t step, const fs::path& run) {
  const fs::path folder = run / checkpoints_name;
  if (is_folder(folder / step_name(step))) return folder / step_name(step);
  const std::vector<std::int64_t> steps = steps_in(folder);
  throw DataError("{}{}: no checkpoint {}; {}",
                  name.before(),
                  folder.string(),
                  step_name(step),
                  steps.empty()
                      ? "no step is saved there"
                      : fmt::format("{} saved there, the newest is {}",
                                    steps.size() == 1 ? "one step is"
                                                      : fmt::format("{} steps are", steps.size()),
                                    step_name(steps.back())));
}

constexpr const char* best_name = "best";

// Returns the resolved name after a letter: 's' a step, 'f' a folder whose newest step is selected,
// 'b' a folder whose best step is, 'e' an error.
std::string meaning_of(const ConfigPath& name, const fs::path& run) {
  const std::string& text = name.text();
  try {
    if (is_folder(text)) {
      if (const auto folder = folder_of_steps(text)) return 'f' + folder->string();
    } else if (const auto step = step_of(text)) {
      return 's' + step_of_run(name, *step, run).string();
    } else if (text == best_name) {
      return 'b' + (run / checkpoints_name).string();
    } else if (!is_any(text)) {
      throw DataError("{}: no such checkpoint{}", name.describe(), name.not_found_hint());
    }
    return 's' + text;
  } catch (const std::exception& error) {
    return std::string("e") + error.what();
  }
}

// Returns the best step according to the newest one. Collective.
fs::path best_of_newest(const ConfigPath& name, const Checkpoint& newest, const fs::path& run) {
  const auto best = best_step(newest.scalars());
  if (!best)
    throw DataError("{}{}: no best checkpoint; set checkpoint.best_metric to retain one",
                    name.before(),
                    newest.path().string());
  return step_of_run(name, best->step, run);
}

}  // namespace

NamedCheckpoint find_checkpoint(const ConfigPath& name,
                                const fs::path& run,
                                const Communicator& world,
                                const CheckpointValidator& judge,
                                const ReadProgress& watch) {
  // Another node may see different directory contents.
  const std::string meaning =
      world.broadcast(world.rank() == 0 ? meaning_of(name, run) : std::string(), 0);
  const std::string text = meaning.substr(1);
  if (meaning[0] == 'e') throw DataError("{}", text);
  if (meaning[0] == 's') return {text, {}};
  CheckpointSearch search = latest_valid_checkpoint(text, world, judge, watch);
  if (search.found && meaning[0] == 'b')
    return {best_of_newest(name, open_run_checkpoint(search.found->path, watch), run), {}};
  if (search.found) return {search.found->path, std::move(search.skipped)};
  if (search.skipped.empty()) throw DataError("{}{}: no checkpoint yet", name.before(), text);
  throw DataError(
      "{}{}: no valid checkpoint; the newest: {}", name.before(), text, search.skipped.front());
}

}  // namespace longspan
