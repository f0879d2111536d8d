#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "checkpoints/checkpoint.h"
#include "framework/core/error.h"
#include "framework/core/format.h"
#include "framework/training_loop/log.h"
#include "framework/training_loop/resume.h"
#include "framework/training_loop/run_directory.h"
#include "launch/cli/configuration.h"
#include "launch/cli/launch.h"
#include "launch/cli/retry_hosts.h"
#include "launch/cli/run_record.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

constexpr int max_without_progress = 3;
constexpr std::int64_t max_wait = 300;  // seconds; exceeded only if the first wait is longer
constexpr int max_doublings = 20;
constexpr std::chrono::milliseconds between_tries{200};

// Exit codes after which the same command would end the same way, or is complete.
bool is_final(int code) {
  constexpr std::array final_codes = {
      ExitCode::ok, ExitCode::configuration, ExitCode::data, ExitCode::diverged, ExitCode::stopped};
  return std::ranges::any_of(final_codes,
                             [&](ExitCode each) { return code == static_cast<int>(each); });
}

// A second Ctrl-C ends the job, which `run_job` has reported.
bool was_interrupted_twice(const JobResult& end) {
  return end.was_asked && end.code == 128 + SIGINT;
}

// Describes an exit code that is not final.
std::string failure_of(int code) {
  if (code == static_cast<int>(ExitCode::rank_failed)) return "a rank failed or hung";
  const int signal = code - 128;
  if (signal >= 1 && signal < NSIG)
    return fmt::format("a rank was killed by signal {} ({})", signal, ::strsignal(signal));
  return "mpirun failed (host lost?)";
}

// Progress of a run, from its directory.
struct Progress {
  std::int64_t saved = 0;
  std::int64_t logged = 0;
};

// Settings of the next attempt.
struct Turn {
  std::optional<LaunchCommandLine> line = {};  // empty while no host responds
  std::string trouble = {};                    // why there can be no further attempt
};

class Attempts {
 public:
  Attempts(const LaunchCommandLine& line, const ConfigurationText& source, const StartJob& start);
  int run();
  int run_once();

 private:
  std::vector<std::string> silent_hosts();
  bool is_asked_within(std::chrono::milliseconds time);
  std::string why(const JobResult& end);
  void report_killed(int code);
  std::optional<fs::file_time_type> marked_at() const;
  Progress progress() const;
  bool resumes_own_checkpoint() const;
  std::string resume_hint() const;
  int ended_with(int code) const;
  std::string update_progress();
  std::string limit_reached() const;
  bool wait();
  bool wait_for_directory();
  Turn find_machines();
  void say(LogLevel level, const std::string& sentence) const;
  int abandon(const std::string& reason, int code) const;
  int stopped() const;

  const LaunchCommandLine& line_;
  const StartJob& start_;
  std::optional<RetryHosts> hosts_;  // only with --max-restarts: a host list may be a pipe
  fs::path directory_;
  ConfigPath resume_;              // checkpoint.resume_from
  std::int64_t saved_before_ = 0;  // the newest step in the directory before the first attempt
  double time_limit_ = 0;
  Progress best_;                                     // of all attempts
  std::optional<fs::file_time_type> metrics_before_;  // when an earlier run's metrics were written
  bool was_asked_ = false;                            // to stop, between attempts
  bool is_held_ = false;                              // the directory
  int attempts_ = 0;
  int restarts_ = 0;
  int without_progress_ = 0;  // consecutive attempts that failed at one position
  int doublings_ = 0;         // of the wait
};

Attempts::Attempts(const LaunchCommandLine& line,
                   const ConfigurationText& source,
                   const StartJob& start)
    : line_(line), start_(start) {
  if (line.retry.most > 0) hosts_.emplace(line, source);
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

// Also writes to the log once the run's directory exists.
void Attempts::say(LogLevel level, const std::string& sentence) const {
  const std::string told = "longspan launch: " + sentence;
  std::fprintf(stderr, "%s\n", told.c_str());
  std::error_code error;
  if (!fs::is_directory(directory_, error)) return;
  std::ofstream(directory_ / log_file, std::ios::app);
  append_to_log(directory_ / log_file, level, told.c_str());
}

int Attempts::abandon(const std::string& reason, int code) const {
  say(LogLevel::error, "giving up: " + reason);
  return ended_with(code);
}

int Attempts::stopped() const {
  say(LogLevel::info,
      fmt::format("stopped before attempt {} as requested; {}", attempts_ + 1, resume_hint()));
  return static_cast<int>(ExitCode::stopped);
}

// Whether an attempt resumes from this run's own checkpoints, whatever its first attempt started
// from. Steps of an earlier run count only if this run was to resume from them.
bool Attempts::resumes_own_checkpoint() const {
  return progress().saved > (resume_ == "auto" ? 0 : saved_before_);
}

std::string Attempts::resume_hint() const {
  if (!resumes_own_checkpoint()) return "nothing is saved yet; run the same command to restart";
  return fmt::format("run the same command{} to resume", resume_instructions(resume_));
}

// For an attempt that replaced the user's checkpoint.resume_from by `auto`, reports how to restart
// it.
int Attempts::ended_with(int code) const {
  if (code != 0 && attempts_ > 1 && resume_ != "auto" && resumes_own_checkpoint())
    say(LogLevel::info,
        fmt::format("checkpoint.resume_from: {} applied to the first attempt only; {}",
                    resume_.text(),
                    resume_hint()));
  return code;
}

// If its directory cannot be read, returns what is known. Metrics of an earlier run that has saved
// nothing do not count: an attempt moves them aside.
Progress Attempts::progress() const try {
  const std::vector<std::int64_t> saved = steps_in(directory_ / "checkpoints");
  std::error_code error;
  const auto written = fs::last_write_time(directory_ / metrics_file, error);
  if (saved.empty() && (error || written == metrics_before_)) return {};
  return {saved.empty() ? 0 : saved.back(), last_logged_step(directory_)};
} catch (const DataError&) {
  return best_;
}

// Whether a signal arrived in this time.
bool Attempts::is_asked_within(std::chrono::milliseconds time) {
  if (wait_for_signal(time)) was_asked_ = true;
  return was_asked_;
}

// Returns the hosts that do not respond.
std::vector<std::string> Attempts::silent_hosts() {
  UnreachableHosts silence = hosts_->ask();
  if (silence.was_asked) was_asked_ = true;
  if (!silence.doubt.empty()) say(LogLevel::warning, silence.doubt);
  return std::move(silence.hosts);
}

// Returns why the job is worth another attempt, or "". mpirun has no exit code for a host that it
// cannot reach.
std::string Attempts::why(const JobResult& end) {
  if (end.was_asked || is_final(end.code)) return "";
  if (end.code != static_cast<int>(ExitCode::failure)) return failure_of(end.code);
  const std::vector<std::string> silent = silent_hosts();
  return silent.empty() ? "" : silence_of(silent);
}

// Returns where the attempt has ended, as a clause.
std::string Attempts::update_progress() {
  const Progress now = progress();
  const bool has_saved = now.saved > best_.saved;
  without_progress_ = has_saved || now.logged > best_.logged ? 1 : without_progress_ + 1;
  if (has_saved) doublings_ = 0;
  best_ = {std::max(best_.saved, now.saved), std::max(best_.logged, now.logged)};
  return fmt::format(
      "{}, {}",
      now.logged > 0 ? fmt::format("after step {}", now.logged) : "before the first logged step",
      now.saved > 0 ? fmt::format("newest checkpoint at step {}", now.saved) : "no checkpoint");
}

std::string Attempts::limit_reached() const {
  if (without_progress_ >= max_without_progress)
    return fmt::format("{} consecutive attempts made no progress beyond step {}",
                       without_progress_,
                       std::max(best_.saved, best_.logged));
  if (restarts_ < line_.retry.most) return "";
  if (is_held_)
    return fmt::format("{} is still locked by a rank of the previous attempt", directory_.string());
  return fmt::format("restarted {}, the limit of --max-restarts",
                     restarts_ == 1 ? "once" : fmt::format("{} times", restarts_));
}

// Waits. Returns whether another attempt can start.
bool Attempts::wait() {
  const std::int64_t first = line_.retry.wait;
  const std::int64_t doubled = first << std::min(doublings_++, max_doublings);
  const seconds time(std::min(doubled, std::max(first, max_wait)));
  ++restarts_;
  say(LogLevel::info,
      fmt::format(
          "restarting in {} s (restart {} of {})", time.count(), restarts_, line_.retry.most));
  return !is_asked_within(time) && wait_for_directory();
}

// A rank on an unreachable host holds the directory until it detects the failure. Returns whether
// the directory is free.
bool Attempts::wait_for_directory() {
  is_held_ = is_running(directory_);
  if (!is_held_) return true;
  say(LogLevel::info,
      fmt::format("waiting for {}, still locked by a rank of the previous attempt",
                  directory_.string()));
  const std::chrono::duration<double> limit(time_limit_ + line_.retry.shutdown_grace);
  const auto end = Clock::now() + limit;
  while (is_held_ && Clock::now() < end) {
    if (is_asked_within(between_tries)) return false;
    is_held_ = is_running(directory_);
  }
  return !is_held_;
}

Turn Attempts::find_machines() {
  const std::vector<std::string> silent = silent_hosts();
  if (was_asked_) return {};
  if (hosts_->are_all(silent)) {
    say(LogLevel::warning, silence_of(silent));
    return {};
  }
  LaunchCommandLine line = line_;
  const bool changes_resume = resume_ != "auto" && resumes_own_checkpoint();
  if (changes_resume) add_settings(line, {"checkpoint.resume_from=auto"});
  const PlacedCommand found = hosts_->place_command(std::move(line), silent);
  if (!found.trouble.empty()) return {.trouble = found.trouble};
  say(LogLevel::info,
      fmt::format("starting attempt {} on {}{}{}",
                  attempts_ + 1,
                  found.line.ranks ? pluralize(*found.line.ranks, "rank") : "the ranks",
                  found.describe,
                  changes_resume ? ", with checkpoint.resume_from: auto" : ""));
  return {.line = found.line};
}

// A killed rank logs nothing itself; a failed rank has logged its error.
void Attempts::report_killed(int code) {
  say(LogLevel::error,
      fmt::format("{} {}; {}", failure_of(code), update_progress(), resume_hint()));
}

// Returns when a run last wrote its mark (run_directory.h), or nothing.
std::optional<fs::file_time_type> Attempts::marked_at() const {
  std::error_code error;
  const auto written = fs::last_write_time(directory_ / lock_name, error);
  return error ? std::nullopt : std::optional(written);
}

int Attempts::run_once() {
  const auto marked_before = marked_at();
  const JobResult end = start_(line_);
  ++attempts_;
  if (is_final(end.code) || was_interrupted_twice(end)) return end.code;
  // A job that failed before it trained leaves the mark of an earlier run.
  const bool has_trained = marked_at() != marked_before;
  const bool was_killed =
      end.code > 128 || (has_trained && read_run_record(directory_).state == RunState::killed);
  if (was_killed) report_killed(end.code);
  return end.code;
}

int Attempts::run() {
  LaunchCommandLine line = line_;
  silent_hosts();  // tests whether hosts can be probed: the first attempt uses all of them
  if (was_asked_) return stopped();
  while (true) {
    const JobResult end = start_(line);
    ++attempts_;
    const std::string reason = why(end);
    if (was_asked_) return stopped();
    if (reason.empty()) {
      if (end.was_asked && end.code > 128 && !was_interrupted_twice(end)) report_killed(end.code);
      return ended_with(end.code);
    }
    say(LogLevel::warning,
        fmt::format("attempt {} ended with code {} {}: {}",
                    attempts_,
                    end.code,
                    update_progress(),
                    reason));
    Turn turn;
    while (!turn.line) {
      if (const std::string limit = limit_reached(); !limit.empty())
        return abandon(limit, end.code);
      if (wait()) turn = find_machines();
      if (was_asked_) return stopped();
      if (!turn.trouble.empty()) return abandon(turn.trouble, end.code);
    }
    line = *turn.line;
  }
}

}  // namespace

int run_with_retries(const LaunchCommandLine& line,
                     const ConfigurationText& source,
                     const StartJob& start) {
  Attempts attempts(line, source, start);
  return line.retry.most == 0 ? attempts.run_once() : attempts.run();
}

}  // namespace longspan
