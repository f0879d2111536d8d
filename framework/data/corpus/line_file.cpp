#include "framework/data/corpus/line_file.h"

#include <algorithm>
#include <iostream>
#include <span>

#include "framework/core/input_file.h"
#include "framework/data/corpus/lines.h"
#include "framework/data/corpus/text_input.h"

namespace longspan {
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

}  // namespace longspan
