// Names in a checkpoint directory, and leftovers of killed runs.
//
// step-000000500            a saved step
// step-000000500.tmp-ID     a step being saved, or the one that it replaced
// step-000000500.lock-ID    locked by rank 0 of the saving run during its lifetime
// step-000000500.replaced-ID  a step moved aside by a save of an equal step
// step-000000500.removed-ID   a step being removed
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longspan {

enum class StepUse { saved, temporary, lock, replaced, removed };

struct StepEntry {
  std::int64_t step = 0;
  StepUse use = StepUse::saved;
  std::string id;

  std::string name() const;
};

// Returns nothing when the name is none of the above.
std::optional<StepEntry> step_entry(std::string_view name);

// Returns an id unique to this save.
std::string unique_id();

// Removes leftovers of dead runs, and restores a step that was moved aside and never replaced.
// Ignores leftovers that cannot be removed.
void remove_leftovers(const std::filesystem::path& directory) noexcept;
// Returns the steps that were moved aside and exist nowhere else, each with a message. Throws
// DataError when the directory is unreadable.
std::vector<std::pair<std::int64_t, std::string>> steps_moved_aside(
    const std::filesystem::path& directory);

}  // namespace longspan
