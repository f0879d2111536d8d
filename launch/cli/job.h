// A job of ranks that a user can interrupt without losing its progress, and a filter of mpirun's
// own messages.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

struct Job {
  std::vector<std::string> command;  // mpirun, which forwards SIGUSR1 to every rank, or the rank
  bool by_mpirun = false;
  bool saves = false;           // SIGUSR1 requests the ranks to save and stop
  bool is_local = true;         // all ranks run on this machine
  bool caller_reports = false;  // the caller, not `run_job`, reports which signal ended a rank
  // Time that mpirun may need to start its daemons on other machines. A stop request to mpirun
  // waits for that time, or until a rank reports.
  std::chrono::seconds daemons_start{60};
};

struct JobResult {
  int code = 0;            // exit code, or 128 + n if signal n ended it
  bool was_asked = false;  // to save and stop
};

// Blocks the signals that `run_job` handles until it waits for them, also in threads created later.
void block_signals();
// Waits for such a signal and consumes it; returns nothing on timeout. For use between jobs.
std::optional<int> wait_for_signal(std::chrono::milliseconds time);

// Runs the job in its own process group, so that a terminal's signals do not reach it, and returns
// how it ended. INT, TERM, HUP, USR1 and USR2 request a job that saves to save and stop (75). A
// second INT, and any of them for a job that does not save, ends it (128 + n). Requests and waits
// are reported on standard error. No process that the job started on this machine outlives it. One
// job at a time; this process's handling of these signals stays changed. Throws Failure if the
// program cannot be started.
JobResult run_job(const Job& job);

// Filters the standard error of mpirun: removes its messages about a rank with a nonzero exit code.
// mpirun considers that an aborted job, but the code already describes it.
class MpirunStderrFilter {
 public:
  // The exit code with which a rank ended the job (end_words of framework/distributed/session.h).
  // mpirun then ends the job.
  std::optional<int> end_code() const { return end_code_; }
  // Whether mpirun has lost another machine, or could not reach it.
  bool reports_lost_machine() const { return reports_lost_machine_; }
  // Whether mpirun ended because it had to forward something, such as a signal, before all of its
  // daemons had started. Its exit code is 0 then.
  bool reports_missing_daemon() const { return reports_missing_daemon_; }
  // Consumes text and returns what to show of it now.
  std::string push(std::string_view text);
  // Returns all buffered text. Call it when no more text has arrived for a while, or at the end.
  std::string flush();

 private:
  std::string push_line(std::string line);
  std::string push_block();

  std::string line_;                // incomplete
  std::vector<std::string> block_;  // lines since a line of dashes, inclusive
  std::optional<int> end_code_;
  bool reports_lost_machine_ = false;
  bool reports_missing_daemon_ = false;
};

}  // namespace longspan
