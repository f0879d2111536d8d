// The names in a directory of checkpoints, and what killed runs leave in it.
//
// step-000000500            a saved step
// step-000000500.tmp-ID     one being saved, or what it replaced
// step-000000500.lock-ID    locked by rank 0 of the run that saves, for as long as it lives
// step-000000500.replaced-ID  the step that a save of the same step moved aside
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

// Nothing when the name is none of the above.
std::optional<StepEntry> step_entry(std::string_view name);

// An id that no other save has.
std::string unique_id();

// Removes what runs that are no longer alive left behind, and puts back a step that was moved aside
// and never replaced. What cannot be removed is left.
void remove_leftovers(const std::filesystem::path& directory) noexcept;
// Each step that was moved aside and is still there in no other place, with a sentence. Throws
// DataError when the directory cannot be read.
std::vector<std::pair<std::int64_t, std::string>> steps_moved_aside(
    const std::filesystem::path& directory);

}  // namespace longspan
