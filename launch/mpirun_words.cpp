#include "launch/mpirun_words.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace longspan {
namespace {

// Open MPI puts its messages between two lines of so many dashes.
const std::string frame(74, '-');
constexpr std::array<std::string_view, 2> of_exit_codes = {
    "Primary job  terminated normally, but",
    "mpirun detected that one or more processes exited with non-zero status"};
constexpr std::string_view of_signals = "mpirun: Forwarding signal ";

}  // namespace

std::string MpirunWords::push_line(std::string line) {
  const std::string_view words(line.data(), line.size() - 1);
  if (block_.empty()) {
    if (words.starts_with(of_signals)) return {};
    if (words != frame) return line;
    block_.push_back(std::move(line));
    return {};
  }
  const bool ends = words == frame;
  block_.push_back(std::move(line));
  if (!ends) return {};
  const bool is_noise = std::ranges::any_of(
      of_exit_codes, [&](std::string_view begin) { return block_[1].starts_with(begin); });
  const std::vector<std::string> block = std::exchange(block_, {});
  return is_noise ? "" : std::accumulate(block.begin(), block.end(), std::string());
}

std::string MpirunWords::push(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    line_ += c;
    if (c == '\n') shown += push_line(std::exchange(line_, {}));
  }
  return shown;
}

std::string MpirunWords::flush() {
  std::string shown;
  for (const std::string& line : std::exchange(block_, {})) shown += line;
  return shown + std::exchange(line_, {});
}

}  // namespace longspan
