// What a run's log.txt warns of.
#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

inline constexpr std::size_t most_warnings = 40;

// Adds a line of a log whose level is warning or error, cut where it is long, and drops the oldest
// of more than `most`. Other lines change nothing.
void add_warning(std::deque<std::string>& newest,
                 std::string_view line,
                 std::size_t most = most_warnings);

// The newest lines of a log whose level is warning or error, oldest first; none where there is no
// such file or it cannot be read. A long line is cut.
std::vector<std::string> log_warnings(const std::filesystem::path& path,
                                      std::size_t most = most_warnings);

}  // namespace longspan
