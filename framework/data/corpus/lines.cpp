#include "framework/data/corpus/lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <vector>

namespace longspan {

namespace {

constexpr std::int64_t bytes_scanned_at_once = std::int64_t{1} << 22;

}  // namespace

std::string_view without_line_end(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

void for_each_line_block(const InputFile& file,
                         const ProgressCallback& listener,
                         const std::function<void(std::span<const Line>)>& f) {
  std::string held;  // read but not yet passed on
  std::vector<Line> lines;
  std::int64_t number = 0;
  std::int64_t offset = 0;  // of the first byte of `held`
  for (std::int64_t at = 0; at < file.size();) {
    const std::int64_t length = std::min(bytes_scanned_at_once, file.size() - at);
    const std::size_t before = held.size();
    held.resize(before + static_cast<std::size_t>(length));
    file.copy(at, std::span(held).subspan(before));
    at += length;
    const bool last = at == file.size();
    lines.clear();
    std::size_t begin = 0;
    // Continues the search in a line longer than a block instead of restarting it.
    for (std::size_t look = before; begin < held.size();) {
      const std::size_t end = held.find('\n', look);
      if (end == std::string::npos && !last) break;
      const std::size_t next = end == std::string::npos ? held.size() : end + 1;
      lines.push_back({++number,
                       offset + static_cast<std::int64_t>(begin),
                       without_line_end(std::string_view(held).substr(begin, next - begin))});
      begin = look = next;
    }
    f(lines);
    held.erase(0, begin);
    offset += static_cast<std::int64_t>(begin);
    if (listener) listener({file.path(), at, file.size()});
  }
}

std::string line_location(std::string_view path, std::int64_t number) {
  return fmt::format("{}:{}", path, number);
}

std::int64_t line_number_at(const InputFile& file, std::int64_t offset) {
  std::int64_t number = 1;
  for (std::int64_t at = 0; at < offset;) {
    const std::string bytes = read_bytes(file, at, std::min(at + bytes_scanned_at_once, offset));
    number += std::count(bytes.begin(), bytes.end(), '\n');
    at += std::ssize(bytes);
  }
  return number;
}

std::string read_bytes(const InputFile& file, std::int64_t begin, std::int64_t end) {
  std::string bytes(static_cast<std::size_t>(end - begin), '\0');
  file.copy(begin, bytes);
  return bytes;
}

void parallel_for(std::size_t count,
                  const std::function<void(std::size_t)>& f,
                  std::size_t at_once) {
  std::exception_ptr problem;
  std::size_t first = count;
#pragma omp parallel for schedule(dynamic, at_once)
  for (std::size_t i = 0; i < count; ++i) {
    try {
      f(i);
    } catch (...) {
#pragma omp critical(longspan_in_parallel)
      if (i < first) {
        first = i;
        problem = std::current_exception();
      }
    }
  }
  if (problem) std::rethrow_exception(problem);
}

}  // namespace longspan
