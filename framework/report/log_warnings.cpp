#include "framework/report/log_warnings.h"

#include <deque>
#include <fstream>
#include <string_view>

namespace longspan {
namespace {

constexpr std::size_t most_line_bytes = 1000;

// "2025-01-31 12:34:56.789 warning ...": what framework/runs/log.h writes.
bool is_warning(std::string_view line) {
  constexpr std::size_t after_time = 24;
  if (line.size() <= after_time || line[4] != '-' || line[13] != ':') return false;
  const std::string_view rest = line.substr(after_time);
  return rest.starts_with("warning ") || rest.starts_with("error ") ||
         rest.starts_with("critical ");
}

}  // namespace

std::vector<std::string> log_warnings(const std::filesystem::path& path, std::size_t most) {
  std::deque<std::string> newest;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    if (!is_warning(line)) continue;
    if (newest.size() == most) newest.pop_front();
    newest.push_back(line.substr(0, most_line_bytes));
  }
  return {newest.begin(), newest.end()};
}

}  // namespace longspan
