// A job of ranks that a person can interrupt without losing what it has done.
#pragma once

#include <string>
#include <vector>

namespace longspan {

struct Job {
  std::vector<std::string> command;  // mpirun, which passes SIGUSR1 on to every rank, or the rank
  bool by_mpirun = false;
  bool saves = false;    // SIGUSR1 asks the ranks to save and stop
  bool is_local = true;  // all ranks run on this machine
};

// From now on the signals that `run_job` takes wait for it, in threads that are made later too.
void hold_signals();

// Runs the job in a process group of its own, so that a terminal's signals do not reach it, and
// returns its exit code, or 128 + n where signal n ended it. INT, TERM, HUP, USR1 and USR2 ask a
// job that saves to do so and to stop (75); a second INT, and any of them for a job that does not
// save, ends it (128 + n). What they ask for and what is waited for is told on standard error.
// Nothing that the job started on this machine outlives it. Throws Failure when the program cannot
// be started. The process has one job in its life: its handling of these signals stays changed.
int run_job(const Job& job);

}  // namespace longspan
