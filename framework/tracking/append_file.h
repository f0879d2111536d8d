// What the files that a run appends to have in common.
#pragma once

#include <filesystem>
#include <string_view>

namespace longspan {

// Throws Failure with the place, what went wrong and errno's words.
[[noreturn]] void fail_with_errno(const std::filesystem::path& path, const char* what);

// Appends the bytes to an open file by one write(2). Throws Failure when it cannot take them whole.
void write_all(int file, const std::filesystem::path& path, std::string_view bytes);

// Brings what was written to the disk. Throws Failure.
void fsync_file(int file, const std::filesystem::path& path);

}  // namespace longspan
