// The checkpoint that a user means.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "framework/core/config_path.h"

namespace longspan {

struct NamedCheckpoint {
  std::filesystem::path path;        // of a step
  std::vector<std::string> skipped;  // a sentence for each newer step that was passed over
};

// Collective: the same on every rank. `name` is the directory of a step; or the name or number of a
// step of the run in `run` ("step-000000080", "80"), or "best", the one that its newest step knows
// as the best (checkpoint.best_metric); or the directory of any run, or its folder of
// checkpoints, of which the newest step is meant that verifies and that `judge` finds nothing wrong
// with. Throws DataError, beginning with the place where it is named, where there is no such step
// or none can be read; a step that is named is not read.
NamedCheckpoint find_checkpoint(const ConfigPath& name,
                                const std::filesystem::path& run,
                                const Communicator& world,
                                const CheckpointValidator& judge = {},
                                const ReadProgress& watch = {});

}  // namespace longspan
