// What a run's log.txt warns of.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace longspan {

// The newest lines of a log whose level is warning or error, oldest first; none where there is no
// such file or it cannot be read. A long line is cut.
std::vector<std::string> log_warnings(const std::filesystem::path& path, std::size_t most = 40);

}  // namespace longspan
