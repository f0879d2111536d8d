// Helpers for files that a run appends to.
#pragma once

#include <filesystem>
#include <string_view>

namespace longspan {

// Throws Failure with the path, the failed operation and the errno message.
[[noreturn]] void fail_with_errno(const std::filesystem::path& path, const char* what);

// Appends the bytes to an open file with one write(2). Throws Failure on an incomplete write.
void write_all(int file, const std::filesystem::path& path, std::string_view bytes);

// Flushes written data to disk. Throws Failure.
void fsync_file(int file, const std::filesystem::path& path);

}  // namespace longspan
