// Resolves checkpoint paths of the command line.
#pragma once

#include <filesystem>
#include <vector>

namespace longspan {

// Returns the step directories at `path`, oldest first. These are `path` itself, those in it, or
// those in its folder checkpoints/ if it is a run's directory. Throws DataError if there are none,
// with the progress of the run if it is one.
std::vector<std::filesystem::path> checkpoints_at(const std::filesystem::path& path);

}  // namespace longspan
