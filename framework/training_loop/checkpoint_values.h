// Validates all values of a run's checkpoint. Their readers (Trainer, LossScaler, ...) need not
// check again.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoints/checkpoint.h"

namespace longspan {

// Returns a message for each value that no run writes. Examples: counters that are negative, too
// large or inconsistent with each other or the step, and an unreadable tokenizer. Others: a missing
// configuration, and a cursor or recurrent state of another shape. A checkpoint without scalars of
// a run holds weights saved by another program: only its texts are checked.
std::vector<std::string> value_problems(const Checkpoint& checkpoint);

// Opens a checkpoint (Checkpoint::open) and throws DataError with the first problem found.
Checkpoint open_run_checkpoint(const std::filesystem::path& path, const ReadProgress& watch = {});

}  // namespace longspan
