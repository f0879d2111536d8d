// What can be seen of a run from outside.
#pragma once

#include <cstdint>
#include <filesystem>

namespace longspan {

// Whether a process trains into that directory now, as far as the file system tells of locks.
bool is_running(const std::filesystem::path& run) noexcept;

// The last step of its file of metrics; 0 where there is none, or it is no such file.
std::int64_t last_logged_step(const std::filesystem::path& run) noexcept;

}  // namespace longspan
