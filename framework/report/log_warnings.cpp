#include "framework/report/log_warnings.h"

#include <array>
#include <deque>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace longspan {
namespace {

constexpr std::size_t max_warning_bytes = 1000;

// "2025-01-31 12:34:56.789 warning ...": the format of framework/training_loop/log.h.
bool is_warning(std::string_view line) {
  constexpr std::size_t after_time = 24;
  if (line.size() <= after_time || line[4] != '-' || line[13] != ':') return false;
  const std::string_view rest = line.substr(after_time);
  return rest.starts_with("warning ") || rest.starts_with("error ") ||
         rest.starts_with("critical ");
}

}  // namespace

void add_warning(std::deque<std::string>& newest, std::string_view line, std::size_t most) {
  if (!is_warning(line)) return;
  if (newest.size() == most) newest.pop_front();
  newest.emplace_back(line.substr(0, max_warning_bytes));
}

std::vector<std::string> log_warnings(const std::filesystem::path& path, std::size_t most) {
  std::deque<std::string> newest;
  std::error_code error;
  // Reading a pipe or device would never end.
  if (!std::filesystem::is_regular_file(path, error)) return {};
  std::ifstream file(path, std::ios::binary);
  std::array<char, max_warning_bytes + 1> line{};
  bool begins = true;  // the buffer begins a line, instead of continuing a long one
  while (file.getline(line.data(), line.size()) || (file.gcount() > 0 && !file.eof())) {
    const bool is_cut = file.fail();
    file.clear();
    const std::string_view text(line.data());
    if (begins) add_warning(newest, text, most);
    begins = !is_cut;
  }
  return {newest.begin(), newest.end()};
}

}  // namespace longspan
