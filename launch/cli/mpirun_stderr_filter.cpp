#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <span>
#include <system_error>
#include <utility>

#include "framework/distributed/session.h"
#include "launch/cli/job.h"

namespace longspan {
namespace {

// Open MPI frames its messages with two lines of this many dashes.
const std::string frame(74, '-');
constexpr std::array<std::string_view, 2> of_exit_codes = {
    "Primary job  terminated normally, but",
    "mpirun detected that one or more processes exited with non-zero status"};
constexpr std::array<std::string_view, 2> of_lost_machines = {
    "ORTE has lost communication with a remote daemon",
    "ORTE was unable to reliably start one or more daemons"};
constexpr std::array<std::string_view, 1> of_missing_daemons = {
    "ORTE does not know how to route a message to the specified daemon"};
constexpr std::string_view of_signals = "mpirun: Forwarding signal ";

bool starts_as(std::string_view text, std::span<const std::string_view> beginnings) {
  return std::ranges::any_of(beginnings,
                             [&](std::string_view begin) { return text.starts_with(begin); });
}

// With or without --tag-output.
std::optional<int> end_code_in(std::string_view words) {
  constexpr std::string_view tag = "<stderr>:";
  if (const auto at = words.find(tag); at != words.npos) words.remove_prefix(at + tag.size());
  if (!words.starts_with(end_words)) return {};
  words.remove_prefix(end_words.size());
  int code = 0;
  const auto [stop, error] = std::from_chars(words.data(), words.data() + words.size(), code);
  const bool is_code = error == std::errc() && stop == words.data() + words.size();
  return is_code ? std::optional(code) : std::nullopt;
}

}  // namespace

std::string MpirunStderrFilter::push_line(std::string line) {
  const std::string_view words(line.data(), line.size() - 1);
  if (block_.empty()) {
    if (const auto code = end_code_in(words)) {
      if (!end_code_) end_code_ = code;
      return {};
    }
    if (words.starts_with(of_signals)) return {};
    if (words != frame) return line;
    block_.push_back(std::move(line));
    return {};
  }
  const bool ends = words == frame;
  block_.push_back(std::move(line));
  return ends ? push_block() : "";
}

std::string MpirunStderrFilter::push_block() {
  const std::vector<std::string> block = std::exchange(block_, {});
  reports_lost_machine_ = reports_lost_machine_ || starts_as(block[1], of_lost_machines);
  reports_missing_daemon_ = reports_missing_daemon_ || starts_as(block[1], of_missing_daemons);
  if (starts_as(block[1], of_exit_codes)) return {};
  return std::accumulate(block.begin(), block.end(), std::string());
}

std::string MpirunStderrFilter::push(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    line_ += c;
    if (c == '\n') shown += push_line(std::exchange(line_, {}));
  }
  return shown;
}

std::string MpirunStderrFilter::flush() {
  std::string shown;
  for (const std::string& line : std::exchange(block_, {})) shown += line;
  return shown + std::exchange(line_, {});
}

}  // namespace longspan
