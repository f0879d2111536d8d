#include "launch/cli/retry_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/format.h"
#include "framework/core/system.h"
#include "launch/cli/layout_choice.h"

namespace longspan {

namespace {

constexpr std::chrono::seconds time_to_answer{10};  // per host

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::string names_of(const std::vector<NamedHost>& hosts) {
  std::vector<std::string> names;
  for (const NamedHost& host : hosts) names.push_back(host.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Returns nothing if a host does not specify its slots.
std::optional<std::int64_t> slots_of(const std::vector<NamedHost>& hosts) {
  std::int64_t sum = 0;
  for (const NamedHost& host : hosts) {
    if (!host.slots) return std::nullopt;
    sum += *host.slots;
  }
  return hosts.empty() ? std::nullopt : std::optional(sum);
}

// Returns a proportional number of ranks for a part of the slots: at least one.
std::int64_t share_of(std::int64_t ranks, std::int64_t part, std::int64_t whole) {
  return std::max<std::int64_t>(1, (ranks * part + whole - 1) / whole);
}

}  // namespace

std::string silence_of(const std::vector<std::string>& hosts) {
  return fmt::format(
      "no answer from {} within {} s", fmt::join(hosts, ", "), time_to_answer.count());
}

RetryHosts::RetryHosts(const LaunchCommandLine& line, const ConfigurationText& source)
    : line_(line), source_(source), hosts_(listed_hosts(line.options)) {}

UnreachableHosts RetryHosts::ask() {
  if (hosts_.empty()) return {};
  HostProbe answers = probe_hosts(hosts_, host_agent(line_.options), time_to_answer);
  here_ = std::move(answers.here);
  if (answers.unreachable.size() + here_.size() < hosts_.size()) has_answered_ = true;
  if (has_answered_ || answers.signal || answers.unreachable.empty())
    return {.hosts = std::move(answers.unreachable), .was_asked = answers.signal.has_value()};
  if (std::exchange(has_reported_doubt_, true)) return {};
  return {.hosts = {},
          .doubt = fmt::format("{}; no other host has answered yet, so lost hosts cannot be "
                               "detected",
                               silence_of(answers.unreachable))};
}

bool RetryHosts::are_all(const std::vector<std::string>& silent) const {
  return !hosts_.empty() && silent.size() == hosts_.size();
}

// Returns the ranks of an attempt on all hosts, if known.
std::optional<std::int64_t> RetryHosts::usual_ranks() const {
  if (line_.ranks) return line_.ranks;
  if (const auto named = configured_ranks(source_)) return named;
  return slots_of(hosts_);
}

// Returns the ranks that fit on some of the hosts. If hosts have more ranks than slots, or do not
// specify slots, it is their proportional share.
std::optional<std::int64_t> RetryHosts::ranks_left(const std::vector<NamedHost>& left) const {
  const auto usual = usual_ranks(), all = slots_of(hosts_), some = slots_of(left);
  if (!usual) return some;
  if (all.value_or(0) == 0) return share_of(*usual, std::ssize(left), std::ssize(hosts_));
  if (*usual > *all) return share_of(*usual, *some, *all);
  return std::max<std::int64_t>(1, std::min(*usual, *some));
}

// Builds the command without the hosts that do not respond.
void RetryHosts::leave_out(const std::vector<std::string>& silent, PlacedCommand& found) const {
  std::vector<NamedHost> left = hosts_;
  std::erase_if(left, [&](const NamedHost& host) { return is_among(silent, host.name); });
  LaunchCommandLine& line = found.line;
  line.options = without_hosts(line_.options, silent, folder_.path());
  const auto usual = usual_ranks(), ranks = ranks_left(left);
  found.describe += fmt::format(" of {} ({})", names_of(left), silence_of(silent));
  if (!usual || !ranks || *ranks >= *usual) return;
  const bool is_here =
      std::ranges::all_of(left, [&](const NamedHost& host) { return is_among(here_, host.name); });
  const auto most = static_cast<int>(*ranks);
  const ChosenLayout layout =
      choose_layout_of_fewer(source_, most, is_here ? std::optional(most) : std::nullopt);
  if (layout.ranks == 0) {
    found.trouble = fmt::format("{}; no layout of the remaining {} fits{}{}",
                                silence_of(silent),
                                pluralize(*ranks, "rank"),
                                layout.reason.empty() ? "" : ": ",
                                layout.reason);
    return;
  }
  line.ranks = layout.ranks;
  add_settings(line, layout.settings);
  found.describe += fmt::format(": {} of {} fit, with the same data.global_batch_size and {}",
                                *ranks,
                                pluralize(*usual, "rank"),
                                fmt::join(layout.settings, ", "));
}

PlacedCommand RetryHosts::place_command(LaunchCommandLine line,
                                        const std::vector<std::string>& silent) const {
  PlacedCommand found = {.line = std::move(line)};
  if (!silent.empty())
    leave_out(silent, found);
  else if (!hosts_.empty())
    found.describe = " of " + names_of(hosts_);
  return found;
}

TemporaryFolder::TemporaryFolder() {
  const char* const parent = std::getenv("TMPDIR");
  std::string name = std::string(parent ? parent : "/tmp") + "/longspan-run-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr)
    throw Failure("longspan launch: {}: cannot be created: {}", name, errno_message());
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

}  // namespace longspan
