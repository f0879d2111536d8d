// Checkpoints as the command line names them.
#pragma once

#include <filesystem>
#include <vector>

namespace longspan {

// The step directories that `path` stands for, oldest first: itself, those in it, or those in its
// folder checkpoints/ when it is the directory of a run. Throws DataError when there are none; of a
// run it says what it is at.
std::vector<std::filesystem::path> checkpoints_at(const std::filesystem::path& path);

}  // namespace longspan
