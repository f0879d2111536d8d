// Resolves the checkpoint that a user names.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "framework/core/config_path.h"

namespace longspan {

struct NamedCheckpoint {
  std::filesystem::path path;        // directory of a step
  std::vector<std::string> skipped;  // a message for each newer step that was skipped
};

// Returns the checkpoint that `name` resolves to, the same on every rank. `name` is one of: the
// directory of a step; the name or number of a step of the run in `run` ("step-000000080", "80");
// "best", the best step according to the newest step (checkpoint.best_metric); the directory of any
// run or its checkpoint folder. The last form selects the newest step that verifies and in which
// `judge` finds no problem. Collective. Throws DataError, prefixed by the location of the key, if
// there is no such step or none can be read. A step that is named is not read.
NamedCheckpoint find_checkpoint(const ConfigPath& name,
                                const std::filesystem::path& run,
                                const Communicator& world,
                                const CheckpointValidator& judge = {},
                                const ReadProgress& watch = {});

}  // namespace longspan
