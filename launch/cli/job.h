// A job of ranks that a user can interrupt without losing its progress.
#pragma once

#include <chrono>
#include <optional>
#include <string>
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

}  // namespace longspan
