// longspan launch: starts a command on several ranks, forwards stop requests, and restarts it after
// a failure.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/cli/configuration_text.h"
#include "launch/cli/job.h"

namespace longspan {

// Automatic restart of training after a rank or a host has failed.
struct RetryOptions {
  int most = 0;  // number of restarts
  int wait = 5;  // seconds before the first restart; doubled while no new checkpoint is saved
  // Seconds beyond run.collective_timeout_seconds until a lost rank releases the run's directory.
  int shutdown_grace = 15;
};

// A command line of `longspan launch`, split at "--".
struct LaunchCommandLine {
  std::optional<int> ranks;
  std::vector<std::string> options;  // of mpirun
  std::vector<std::string> command;  // of this program, started on the ranks
  RetryOptions retry = {};
  bool help_requested = false;
};

// Adds "--set key=value" to the command.
void add_settings(LaunchCommandLine& line, const std::vector<std::string>& settings);

// Parses the words after "launch". Throws ConfigurationError.
LaunchCommandLine read_launch(std::span<char* const> words);

// Runs the command to completion and returns its exit code (launch/cli/job.h). Throws
// ConfigurationError for an invalid configuration, before anything is started.
int run_on_ranks(const LaunchCommandLine& line);

// Automatic restart of failed training.

using StartJob = std::function<JobResult(const LaunchCommandLine&)>;

// Runs the training by `start`, and restarts it up to `line.retry.most` times after a failure. A
// failure is a rank that failed, hung or was ended by a signal, or an unreachable host.
//
// A restart uses the hosts of mpirun's options that respond, with fewer ranks if these have fewer
// slots. A host that does not respond counts as unreachable only once another machine has
// responded, since mpirun may reach hosts that this process cannot. Hosts are also probed before
// the first attempt. Training resumes from the run's newest checkpoint. It waits between attempts
// (see RetryOptions). It gives up after three consecutive attempts without progress. Progress is
// judged by the last step saved and the last one logged.
//
// Without `line.retry.most` runs the training once, and reports where it was killed.
//
// Returns the exit code of the last attempt, or that of a stop on request if a signal arrived in
// between. Each attempt, its reason and its hosts are reported on standard error and in the run's
// log.
int run_with_retries(const LaunchCommandLine& line,
                     const ConfigurationText& source,
                     const StartJob& start);

}  // namespace longspan
