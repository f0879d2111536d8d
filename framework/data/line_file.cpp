#include "framework/data/line_file.h"

#include <algorithm>
#include <iostream>
#include <iterator>
#include <sstream>

#include "framework/core/input_file.h"
#include "framework/data/lines.h"

namespace longspan {
namespace {

std::string bytes_of(const NamedPath& path) {
  if (path.text() == "-") {
    std::ostringstream bytes;
    bytes << std::cin.rdbuf();
    return bytes.str();
  }
  const InputFile file(path);
  return read_bytes(file, 0, file.size());
}

}  // namespace

std::vector<std::string> read_lines(const NamedPath& path, const Communicator& all) {
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
