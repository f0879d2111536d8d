// A job of ranks that a person can interrupt without losing what it has done.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace longspan {

struct Job {
  std::vector<std::string> command;  // mpirun, which passes SIGUSR1 on to every rank, or the rank
  bool by_mpirun = false;
  bool saves = false;           // SIGUSR1 asks the ranks to save and stop
  bool is_local = true;         // all ranks run on this machine
  bool caller_reports = false;  // which signal ended a rank alone, in place of `run_job`
  // As long as mpirun may take to start its daemons on other machines. It is asked to stop after
  // that, or once a rank is heard.
  std::chrono::seconds daemons_start{60};
};

struct JobResult {
  int code = 0;            // its exit code, or 128 + n where signal n ended it
  bool was_asked = false;  // to save and stop
};

// From now on the signals that `run_job` takes wait for it, in threads that are made later too.
void block_signals();
// Waits for such a signal, which is then taken; nothing when the time is over. For between jobs.
std::optional<int> wait_for_signal(std::chrono::milliseconds time);

// Runs the job in a process group of its own, so that a terminal's signals do not reach it, and
// returns how it ended. INT, TERM, HUP, USR1 and USR2 ask a job that saves to do so and to stop
// (75); a second INT, and any of them for a job that does not save, ends it (128 + n). What they
// ask for and what is waited for is told on standard error. Nothing that the job started on this
// machine outlives it. Throws Failure when the program cannot be started. One job at a time; what
// this process does with these signals stays changed.
JobResult run_job(const Job& job);

}  // namespace longspan
