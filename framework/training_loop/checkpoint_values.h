// What the values of a run's checkpoint may be: the one place that knows it of all of them. What
// they are read for (Trainer, LossScaler, ...) need not ask again.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoints/checkpoint.h"

namespace longspan {

// A sentence for each value that no run writes: counters that are negative, too large or contradict
// one another or the step, a tokenizer that cannot be read, no configuration, a cursor or memory of
// another shape. A checkpoint without any scalar of a run holds weights that another program saved:
// only its texts are looked at.
std::vector<std::string> value_problems(const Checkpoint& checkpoint);

// Checkpoint::open, and then throws DataError with the first of the above.
Checkpoint open_run_checkpoint(const std::filesystem::path& path, const ReadProgress& watch = {});

}  // namespace longspan
