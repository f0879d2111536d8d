// The lines of a file, in order, with their numbers and places.
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

// Calls `f` with some megabytes of whole lines at a time; the texts are there until it returns.
// Throws what `f` and the listener throw.
void for_each_line_block(const InputFile& file,
                         const ProgressCallback& listener,
                         const std::function<void(std::span<const Line>)>& f);

// "FILE:12", with which messages begin.
std::string line_location(std::string_view path, std::int64_t number);

// The number of the line that has this byte; reads all before it.
std::int64_t line_number_at(const InputFile& file, std::int64_t offset);

// Bytes [begin, end).
std::string read_bytes(const InputFile& file, std::int64_t begin, std::int64_t end);

// The text without the end of its line, where it has one.
std::string_view without_line_end(std::string_view text);

// Calls f(0) .. f(count - 1) on the threads of OpenMP. Throws what the first of those that fail
// throws, so that a message does not depend on the threads. A thread takes `at_once` of them.
void parallel_for(std::size_t count,
                  const std::function<void(std::size_t)>& f,
                  std::size_t at_once = 64);

}  // namespace longspan
