// Warnings in a run's log.txt.
#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

inline constexpr std::size_t max_warnings = 40;

// Adds a log line whose level is warning or error, truncated if long, and drops the oldest of more
// than `most`. Ignores other lines.
void add_warning(std::deque<std::string>& newest,
                 std::string_view line,
                 std::size_t most = max_warnings);

// Returns the newest log lines whose level is warning or error, oldest first. Empty where the file
// is missing or unreadable. Long lines are truncated.
std::vector<std::string> log_warnings(const std::filesystem::path& path,
                                      std::size_t most = max_warnings);

}  // namespace longspan
