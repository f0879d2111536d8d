#include "checkpoints/step_directory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <random>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "checkpoints/files.h"

namespace longspan {
namespace {

constexpr std::size_t step_digits = 9;
constexpr std::string_view prefix = "step-";
constexpr std::array<std::string_view, 5> infixes = {
    "", ".tmp-", ".lock-", ".replaced-", ".removed-"};

// Throws for an unlistable directory. Treating it as empty would restart the run from scratch.
std::vector<StepEntry> entries_in(const std::filesystem::path& directory) {
  std::vector<StepEntry> entries;
  for (const std::string& name : list_directory(directory))
    if (auto entry = step_entry(name)) entries.push_back(std::move(*entry));
  return entries;
}

// Returns false if the entry was removed after it was listed.
bool is_real_directory(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(path, error);
  if (status.type() == std::filesystem::file_type::none)
    throw DataError("{}: cannot be read: {}", path.string(), error.message());
  return std::filesystem::is_directory(status);
}

}  // namespace

std::string step_name(std::int64_t step) { return fmt::format("{}{:09}", prefix, step); }

std::string StepEntry::name() const {
  return fmt::format("{}{}{}", step_name(step), infixes[static_cast<std::size_t>(use)], id);
}

std::optional<StepEntry> step_entry(std::string_view name) {
  if (!name.starts_with(prefix) || name.size() < prefix.size() + step_digits) return {};
  StepEntry entry;
  const char* digits = name.data() + prefix.size();
  std::from_chars(digits, digits + step_digits, entry.step);
  const std::string_view rest = name.substr(prefix.size() + step_digits);
  for (std::size_t use = 0; use < infixes.size(); ++use) {
    entry.use = static_cast<StepUse>(use);
    entry.id = rest.starts_with(infixes[use]) ? rest.substr(infixes[use].size()) : "";
    // The round trip rejects names that only resemble a valid one.
    if (entry.id.empty() == (entry.use == StepUse::saved) && entry.step >= 0 &&
        entry.name() == name)
      return entry;
  }
  return {};
}

std::string unique_id() {
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return fmt::format("{:x}-{:x}-{:x}", getpid(), now, std::random_device{}());
}

std::vector<std::int64_t> steps_in(const std::filesystem::path& directory) {
  std::vector<std::int64_t> steps;
  for (const StepEntry& entry : entries_in(directory))
    if (entry.use == StepUse::saved && is_real_directory(directory / entry.name()))
      steps.push_back(entry.step);
  std::ranges::sort(steps);
  return steps;
}

std::vector<std::pair<std::int64_t, std::string>> steps_moved_aside(
    const std::filesystem::path& directory) {
  std::vector<std::pair<std::int64_t, std::string>> steps;
  for (const StepEntry& entry : entries_in(directory))
    if (entry.use == StepUse::replaced && !is_real_directory(directory / step_name(entry.step)))
      steps.emplace_back(entry.step,
                         fmt::format("{}: was moved aside and could not be restored",
                                     (directory / entry.name()).string()));
  return steps;
}

void remove_leftovers(const std::filesystem::path& directory) noexcept try {
  std::vector<StepEntry> entries = entries_in(directory);
  std::erase_if(entries, [](const StepEntry& entry) { return entry.use == StepUse::saved; });
  if (entries.empty()) return;
  // Makes the rename durable before the deletion starts.
  sync_directory(directory);
  // Removes locks last, because they guard the rest.
  std::stable_partition(entries.begin(), entries.end(), [](const StepEntry& entry) {
    return entry.use != StepUse::lock;
  });
  for (const StepEntry& entry : entries) {
    const auto path = directory / entry.name();
    const auto lock = directory / StepEntry{entry.step, StepUse::lock, entry.id}.name();
    std::optional<LockFile> held;  // held while the guarded entries are removed
    if (entry.use != StepUse::removed && !(held = LockFile::acquire_abandoned(lock))) continue;
    const auto saved = directory / step_name(entry.step);
    std::error_code error;
    if (entry.use == StepUse::replaced && !std::filesystem::exists(saved, error))
      std::filesystem::rename(path, saved, error);
    else
      remove_tree(path);
  }
} catch (...) {
  // Leftovers only take disk space. The next save retries.
}

void remove_old_checkpoints(const std::filesystem::path& directory,
                            std::int64_t last_good,
                            int keep,
                            std::optional<std::int64_t> best) {
  require(keep >= 1, "expected at least 1 retained checkpoint, found {}", keep);
  std::vector<std::int64_t> steps = steps_in(directory);
  std::erase_if(steps, [&](std::int64_t step) { return step >= last_good || step == best; });
  const auto most = static_cast<std::size_t>(keep - 1);
  if (steps.size() <= most) return;
  steps.resize(steps.size() - most);
  std::vector<std::filesystem::path> renamed;
  const std::string id = unique_id();
  for (const auto step : steps) {
    // A partially deleted step must not have the name of a valid one.
    const auto away = directory / StepEntry{step, StepUse::removed, id}.name();
    std::error_code error;
    std::filesystem::rename(directory / step_name(step), away, error);
    if (!error) renamed.push_back(away);
  }
  sync_directory(directory);
  for (const auto& away : renamed) remove_tree(away);
}

}  // namespace longspan
