// longspan launch: starts a command on several ranks and forwards stop requests.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace longspan {

// Automatic restart of training after a rank or a host has failed (launch/cli/retry.h).
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

}  // namespace longspan
