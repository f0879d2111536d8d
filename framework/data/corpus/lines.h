// Lines of a file, in order, with their numbers and offsets.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "framework/core/input_file.h"
#include "framework/data/progress.h"

namespace longspan {

struct Line {
  std::int64_t number = 0;  // from 1
  std::int64_t offset = 0;  // of its first byte
  std::string_view text;    // without its end, which is "\n" or "\r\n"
};

// Calls `f` with some megabytes of complete lines at a time. The texts are valid until it returns.
// Throws what `f` and the listener throw.
void for_each_line_block(const InputFile& file,
                         const ProgressCallback& listener,
                         const std::function<void(std::span<const Line>)>& f);

// Returns "FILE:12", the prefix of messages.
std::string line_location(std::string_view path, std::int64_t number);

// Returns the number of the line that contains this byte. Reads everything before it.
std::int64_t line_number_at(const InputFile& file, std::int64_t offset);

// Returns bytes [begin, end).
std::string read_bytes(const InputFile& file, std::int64_t begin, std::int64_t end);

// Returns the text without its line end, if any.
std::string_view without_line_end(std::string_view text);

// Calls f(0) .. f(count - 1) on the OpenMP threads, `at_once` indices per chunk. Throws the
// exception of the lowest failing index, so that messages do not depend on thread timing.
void parallel_for(std::size_t count,
                  const std::function<void(std::size_t)>& f,
                  std::size_t at_once = 64);

}  // namespace longspan
