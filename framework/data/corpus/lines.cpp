#include "framework/data/corpus/lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <span>
#include <vector>

#include "framework/core/input_file.h"
#include "framework/data/corpus/text_input.h"
#include "framework/data/tokenization/character_scan.h"

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

namespace {

std::string bytes_of(const ConfigPath& path) {
  if (path.text() != "-") {
    const auto file = open_plain_text(path);
    return read_bytes(*file, 0, file->size());
  }
  if (std::cin.peek() == std::istream::traits_type::eof()) return "";
  const auto read = [](std::span<char> out) {
    std::cin.read(out.data(), std::ssize(out));
    return static_cast<std::size_t>(std::cin.gcount());
  };
  const auto file = plain_text_of(InputFile(ConfigPath("standard input"), read));
  return read_bytes(*file, 0, file->size());
}

}  // namespace

std::vector<std::string> read_lines(const ConfigPath& path, const Communicator& all) {
  std::string mine;
  if (all.rank() == 0) mine = bytes_of(path);
  const std::string bytes = all.broadcast(std::move(mine), 0);
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\n', begin), bytes.size() - 1);
    lines.emplace_back(without_line_end(std::string_view(bytes).substr(begin, end + 1 - begin)));
    begin = end + 1;
  }
  return lines;
}

namespace {

constexpr std::int64_t bytes_at_once = std::int64_t{1} << 22;

bool starts_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

}  // namespace

std::size_t cut_of(std::string_view text, std::size_t longest) {
  const std::size_t space = text.rfind(' ', longest);
  if (space != std::string_view::npos && space > 0) return space;
  std::size_t cut = longest;
  while (cut > 1 && !starts_character(text[cut])) --cut;
  return cut;
}

std::vector<LineChunk> split_lines(std::string_view text,
                                   bool last,
                                   std::size_t& used,
                                   std::size_t longest) {
  std::vector<LineChunk> pieces;
  used = 0;
  while (used < text.size()) {
    const std::string_view left = text.substr(used);
    // A line end directly after a chunk of maximum length is part of it.
    const std::size_t end = left.substr(0, longest + 1).find('\n');
    if (end != std::string_view::npos) {
      pieces.push_back({left.substr(0, end), true});
      used += end + 1;
    } else if (left.size() > longest) {
      const std::size_t cut = cut_of(left, longest);
      pieces.push_back({left.substr(0, cut), false});
      used += cut;
    } else if (last) {
      pieces.push_back({left, false});
      used = text.size();
    } else {
      break;
    }
  }
  return pieces;
}

LineReader::LineReader(const InputFile& file,
                       std::int64_t begin,
                       std::int64_t end,
                       std::size_t longest)
    : file_(file),
      at_(begin),
      end_(end),
      longest_(longest),
      buffer_(static_cast<std::size_t>(std::min(bytes_at_once, end - begin))) {}

bool LineReader::next() {
  pieces_.clear();
  if (at_ >= end_) return false;
  const std::int64_t length = std::min(bytes_at_once, end_ - at_);
  const bool last = at_ + length == file_.size();
  const auto bytes = std::span(buffer_).first(static_cast<std::size_t>(length));
  file_.copy(at_, bytes);
  const std::string_view text(bytes.data(), bytes.size());
  const std::size_t whole =
      for_each_character(text, at_, last, file_.path(), [](char32_t, std::int64_t) {});
  std::size_t used = 0;
  pieces_ = split_lines(text.substr(0, whole), last, used, longest_);
  at_ = used > 0 ? at_ + static_cast<std::int64_t>(used) : end_;
  return !pieces_.empty();
}

}  // namespace longspan
