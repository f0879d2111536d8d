#include "launch/retry.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "checkpoints/checkpoint.h"
#include "framework/core/error.h"
#include "framework/runs/log.h"
#include "framework/runs/resume.h"
#include "framework/runs/run_state.h"
#include "launch/chosen_layout.h"
#include "launch/configuration.h"
#include "launch/named_hosts.h"
#include "launch/plan_text.h"
#include "launch/run_record.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

constexpr int most_without_progress = 3;
constexpr std::int64_t longest_wait = 300;  // seconds; more only where the first wait is longer
constexpr int most_doublings = 20;
constexpr seconds time_to_answer{10};  // of a host
constexpr std::chrono::milliseconds between_tries{200};

// Codes that say that the same command would end so again, or that it is to end.
bool is_final(int code) {
  constexpr std::array final_codes = {
      ExitCode::ok, ExitCode::configuration, ExitCode::data, ExitCode::diverged, ExitCode::stopped};
  return std::ranges::any_of(final_codes,
                             [&](ExitCode each) { return code == static_cast<int>(each); });
}

// What an exit code says of a job that is worth another attempt, whose code is not final.
std::string failure_of(int code) {
  if (code == static_cast<int>(ExitCode::rank_failed)) return "a rank failed or hung";
  const int signal = code - 128;
  if (signal >= 1 && signal < NSIG)
    return fmt::format("signal {} ({}) ended a rank", signal, ::strsignal(signal));
  return "mpirun itself failed, as where it loses a host";
}

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::string names_of(const std::vector<NamedHost>& hosts) {
  std::vector<std::string> names;
  for (const NamedHost& host : hosts) names.push_back(host.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string silence_of(const std::vector<std::string>& hosts) {
  return fmt::format("{} {} not answer within {} s",
                     fmt::join(hosts, ", "),
                     hosts.size() == 1 ? "does" : "do",
                     time_to_answer.count());
}

// Nothing where a host does not tell.
std::optional<std::int64_t> slots_of(const std::vector<NamedHost>& hosts) {
  std::int64_t sum = 0;
  for (const NamedHost& host : hosts) {
    if (!host.slots) return std::nullopt;
    sum += *host.slots;
  }
  return hosts.empty() ? std::nullopt : std::optional(sum);
}

// Of so many ranks that of a part of the places: at least one.
std::int64_t share_of(std::int64_t ranks, std::int64_t part, std::int64_t whole) {
  return std::max<std::int64_t>(1, (ranks * part + whole - 1) / whole);
}

std::string ranks_text(std::int64_t ranks) { return count_of(ranks, "rank"); }

// A folder that goes with its owner.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const char* const parent = std::getenv("TMPDIR");
    std::string name = std::string(parent ? parent : "/tmp") + "/longspan-run-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr)
      throw Failure("longspan run: {}: cannot be made: {}",
                    name,
                    std::error_code(errno, std::generic_category()).message());
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// How far a run is, as its directory tells.
struct Progress {
  std::int64_t saved = 0;
  std::int64_t logged = 0;
};

// What the next attempt is started with.
struct Turn {
  std::optional<RunCommandLine> line = {};  // nothing while no host answers
  std::string trouble = {};                 // why there can be no further attempt
};

class Attempts {
 public:
  Attempts(const RunCommandLine& line, const ConfigurationText& source, const StartJob& start);
  int run();

 private:
  std::vector<std::string> silent_hosts();
  bool is_asked_within(std::chrono::milliseconds time);
  std::string why(const JobEnd& end);
  Progress progress() const;
  bool goes_on_from_own() const;
  std::string how_to_go_on() const;
  int ended_with(int code) const;
  std::string take_progress();
  std::string limit_reached() const;
  bool wait();
  bool wait_for_directory();
  Turn look_for_places();
  void leave_out(const std::vector<std::string>& silent, Turn& turn, std::string& told) const;
  std::optional<std::int64_t> usual_ranks() const;
  std::optional<std::int64_t> ranks_left(const std::vector<NamedHost>& left) const;
  void say(LogLevel level, const std::string& sentence) const;
  int give_up(const std::string& reason, int code) const;
  int stopped() const;

  const RunCommandLine& line_;
  const ConfigurationText& source_;
  const StartJob& start_;
  std::vector<NamedHost> hosts_;
  TemporaryFolder folder_;
  fs::path directory_;
  NamedPath resume_;               // checkpoint.resume
  std::int64_t saved_before_ = 0;  // the newest step in the directory before the first attempt
  double time_limit_ = 0;
  Progress best_;                                     // of all attempts
  std::optional<fs::file_time_type> metrics_before_;  // when those of an earlier run were written
  std::vector<std::string> here_;                     // hosts that are this machine
  bool has_answered_ = false;                         // another machine
  bool told_of_silence_ = false;
  bool was_asked_ = false;  // to stop, between attempts
  bool is_held_ = false;    // the directory
  int attempts_ = 0;
  int restarts_ = 0;
  int without_progress_ = 0;  // attempts in a row that failed at the same place
  int doublings_ = 0;         // of the wait
};

Attempts::Attempts(const RunCommandLine& line,
                   const ConfigurationText& source,
                   const StartJob& start)
    : line_(line), source_(source), start_(start), hosts_(named_hosts(line.options)) {
  const auto configuration = configure(source);
  directory_ = configuration->run.directory.text();
  resume_ = configuration->checkpoint.resume;
  time_limit_ = configuration->run.time_limit;
  std::error_code error;
  const auto written = fs::last_write_time(directory_ / metrics_file, error);
  if (!error) metrics_before_ = written;
  best_ = progress();
  saved_before_ = best_.saved;
}

// In the log too, once there is the directory that it lies in.
void Attempts::say(LogLevel level, const std::string& sentence) const {
  const std::string told = "longspan run: " + sentence;
  std::fprintf(stderr, "%s\n", told.c_str());
  std::error_code error;
  if (!fs::is_directory(directory_, error)) return;
  std::ofstream(directory_ / log_file, std::ios::app);
  append_to_log(directory_ / log_file, level, told.c_str());
}

int Attempts::give_up(const std::string& reason, int code) const {
  say(LogLevel::error, "gives up: " + reason);
  return ended_with(code);
}

int Attempts::stopped() const {
  say(LogLevel::info,
      fmt::format("stopped on request before attempt {}; {}", attempts_ + 1, how_to_go_on()));
  return static_cast<int>(ExitCode::stopped);
}

// Whether an attempt goes on from what this run has saved itself, whatever its first attempt was to
// begin with. Steps that an earlier run has left count only where that was to go on from them.
bool Attempts::goes_on_from_own() const {
  return progress().saved > (resume_ == "auto" ? 0 : saved_before_);
}

std::string Attempts::how_to_go_on() const {
  if (!goes_on_from_own()) return "nothing is saved yet: start again to begin as it began";
  return fmt::format("start again{} to go on", how_to_resume(resume_));
}

// Of an attempt that took checkpoint.resume: auto in place of what the user has set, and said how
// to start that again.
int Attempts::ended_with(int code) const {
  if (code != 0 && attempts_ > 1 && resume_ != "auto" && goes_on_from_own())
    say(LogLevel::info,
        fmt::format("checkpoint.resume: {} was for what began the run: {}",
                    resume_.text(),
                    how_to_go_on()));
  return code;
}

// What is known of it where its directory cannot be read. Of an earlier run that has saved nothing
// the metrics do not count: an attempt puts them aside.
Progress Attempts::progress() const try {
  const std::vector<std::int64_t> saved = steps_in(directory_ / "checkpoints");
  std::error_code error;
  const auto written = fs::last_write_time(directory_ / metrics_file, error);
  if (saved.empty() && (error || written == metrics_before_)) return {};
  return {saved.empty() ? 0 : saved.back(), last_logged_step(directory_)};
} catch (const DataError&) {
  return best_;
}

// Whether a signal came in this time.
bool Attempts::is_asked_within(std::chrono::milliseconds time) {
  if (signal_within(time)) was_asked_ = true;
  return was_asked_;
}

// The hosts that do not answer. Where no other machine has ever answered there may be no way for
// this process to reach any: then none of them counts as silent, which is told once.
std::vector<std::string> Attempts::silent_hosts() {
  if (hosts_.empty()) return {};
  HostAnswers answers = ask_hosts(hosts_, host_agent(line_.options), time_to_answer);
  if (answers.signal) was_asked_ = true;
  here_ = std::move(answers.here);
  if (answers.silent.size() + here_.size() < hosts_.size()) has_answered_ = true;
  if (has_answered_ || was_asked_ || answers.silent.empty()) return answers.silent;
  if (!std::exchange(told_of_silence_, true))
    say(LogLevel::warning,
        fmt::format("{}, nor has another machine answered before: whether a host is gone will "
                    "not be known until one does",
                    silence_of(answers.silent)));
  return {};
}

// Why the job is worth another attempt; "" where it is not. mpirun has no code of its own for a
// host that it cannot reach.
std::string Attempts::why(const JobEnd& end) {
  if (end.was_asked || is_final(end.code)) return "";
  if (end.code != static_cast<int>(ExitCode::failure)) return failure_of(end.code);
  const std::vector<std::string> silent = silent_hosts();
  return silent.empty() ? "" : silence_of(silent);
}

// Returns where the attempt has ended, as a clause.
std::string Attempts::take_progress() {
  const Progress now = progress();
  const bool has_saved = now.saved > best_.saved;
  without_progress_ = has_saved || now.logged > best_.logged ? 1 : without_progress_ + 1;
  if (has_saved) doublings_ = 0;
  best_ = {std::max(best_.saved, now.saved), std::max(best_.logged, now.logged)};
  return fmt::format(
      "{}, {}",
      now.logged > 0 ? fmt::format("after step {}", now.logged) : "before a step was logged",
      now.saved > 0 ? fmt::format("of which step {} is saved", now.saved) : "with nothing saved");
}

std::string Attempts::limit_reached() const {
  if (without_progress_ >= most_without_progress)
    return fmt::format("{} attempts in a row came no further than step {}",
                       without_progress_,
                       std::max(best_.saved, best_.logged));
  if (restarts_ < line_.retry.most) return "";
  if (is_held_)
    return fmt::format("{} is still held by a rank of the attempt before", directory_.string());
  return fmt::format("it was started again {}, which is all that --retry allows",
                     restarts_ == 1 ? "once" : fmt::format("{} times", restarts_));
}

// Whether another attempt can start.
bool Attempts::wait() {
  const std::int64_t first = line_.retry.wait;
  const std::int64_t doubled = first << std::min(doublings_++, most_doublings);
  const seconds time(std::min(doubled, std::max(first, longest_wait)));
  ++restarts_;
  say(LogLevel::info,
      fmt::format(
          "starts again in {} s (time {} of {})", time.count(), restarts_, line_.retry.most));
  return !is_asked_within(time) && wait_for_directory();
}

// A rank on a host that is not to be reached any more holds the directory until it has seen so.
// Returns whether it is free.
bool Attempts::wait_for_directory() {
  is_held_ = is_running(directory_);
  if (!is_held_) return true;
  say(LogLevel::info,
      fmt::format("waits for {}, which a rank of the attempt before still holds",
                  directory_.string()));
  const std::chrono::duration<double> limit(time_limit_ + line_.retry.letting_go);
  const auto end = Clock::now() + limit;
  while (is_held_ && Clock::now() < end) {
    if (is_asked_within(between_tries)) return false;
    is_held_ = is_running(directory_);
  }
  return !is_held_;
}

// The ranks of an attempt on all hosts, where that is known.
std::optional<std::int64_t> Attempts::usual_ranks() const {
  if (line_.ranks) return line_.ranks;
  if (const auto named = named_ranks(source_)) return named;
  return slots_of(hosts_);
}

// Those that there is room for on some of the hosts. Where hosts have more ranks than slots, or do
// not tell their slots, it is their share.
std::optional<std::int64_t> Attempts::ranks_left(const std::vector<NamedHost>& left) const {
  const auto usual = usual_ranks(), all = slots_of(hosts_), some = slots_of(left);
  if (!usual) return some;
  if (all.value_or(0) == 0) return share_of(*usual, std::ssize(left), std::ssize(hosts_));
  if (*usual > *all) return share_of(*usual, *some, *all);
  return std::max<std::int64_t>(1, std::min(*usual, *some));
}

// Takes what has to be without the hosts that do not answer.
void Attempts::leave_out(const std::vector<std::string>& silent,
                         Turn& turn,
                         std::string& told) const {
  std::vector<NamedHost> left = hosts_;
  std::erase_if(left, [&](const NamedHost& host) { return is_among(silent, host.name); });
  RunCommandLine& line = *turn.line;
  line.options = without_hosts(line_.options, silent, folder_.path());
  const auto usual = usual_ranks(), ranks = ranks_left(left);
  told += fmt::format(" of {}, since {}", names_of(left), silence_of(silent));
  if (!usual || !ranks || *ranks >= *usual) return;
  const bool is_here =
      std::ranges::all_of(left, [&](const NamedHost& host) { return is_among(here_, host.name); });
  const auto most = static_cast<int>(*ranks);
  const ChosenLayout layout =
      choose_layout_of_fewer(source_, most, is_here ? std::optional(most) : std::nullopt);
  if (layout.ranks == 0) {
    turn.trouble = fmt::format("{}, and no layout of the {} that are left fits{}{}",
                               silence_of(silent),
                               ranks_text(*ranks),
                               layout.reason.empty() ? "" : ": ",
                               layout.reason);
    return;
  }
  line.ranks = layout.ranks;
  add_settings(line, layout.settings);
  told += fmt::format(": there is room for {} of {}, which divide the same global data.batch by {}",
                      *ranks,
                      ranks_text(*usual),
                      fmt::join(layout.settings, ", "));
}

Turn Attempts::look_for_places() {
  Turn turn;
  const std::vector<std::string> silent = silent_hosts();
  if (was_asked_) return turn;
  if (!hosts_.empty() && silent.size() == hosts_.size()) {
    say(LogLevel::warning, silence_of(silent));
    return turn;
  }
  turn.line = line_;
  const bool changes_resume = resume_ != "auto" && goes_on_from_own();
  if (changes_resume) add_settings(*turn.line, {"checkpoint.resume=auto"});
  std::string told;
  if (!silent.empty())
    leave_out(silent, turn, told);
  else if (!hosts_.empty())
    told = " of " + names_of(hosts_);
  if (!turn.trouble.empty()) return turn;
  const std::string ranks = turn.line->ranks ? ranks_text(*turn.line->ranks) : "the ranks";
  if (changes_resume) told += ", with checkpoint.resume: auto";
  say(LogLevel::info, fmt::format("attempt {} starts on {}{}", attempts_ + 1, ranks, told));
  return turn;
}

int Attempts::run() {
  RunCommandLine line = line_;
  silent_hosts();  // whether there is a way to ask them: the first attempt has all of them
  if (was_asked_) return stopped();
  while (true) {
    const JobEnd end = start_(line);
    ++attempts_;
    const std::string reason = why(end);
    if (was_asked_) return stopped();
    if (reason.empty()) return ended_with(end.code);
    say(LogLevel::warning,
        fmt::format(
            "attempt {} ended with code {} {}: {}", attempts_, end.code, take_progress(), reason));
    Turn turn;
    while (!turn.line) {
      if (const std::string limit = limit_reached(); !limit.empty())
        return give_up(limit, end.code);
      if (wait()) turn = look_for_places();
      if (was_asked_) return stopped();
      if (!turn.trouble.empty()) return give_up(turn.trouble, end.code);
    }
    line = *turn.line;
  }
}

}  // namespace

int run_again_and_again(const RunCommandLine& line,
                        const ConfigurationText& source,
                        const StartJob& start) {
  return Attempts(line, source, start).run();
}

}  // namespace longspan
