// longspan run: starts a command on several ranks, and lets a person stop it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace longspan {

// Starting a training again by itself when a rank or a host has failed (launch/cli/retry.h).
struct RetryOptions {
  int most = 0;  // times
  int wait = 5;  // seconds before the first; they double while nothing new is saved
  // Seconds beyond run.collective_timeout_seconds in which a rank that is lost lets go of the run's
  // directory.
  int letting_go = 15;
};

// A command line of `longspan run`, cut where it says "--".
struct RunCommandLine {
  std::optional<int> ranks;
  std::vector<std::string> options;  // mpirun's
  std::vector<std::string> command;  // of this program, to be started on the ranks
  RetryOptions retry = {};
  bool wants_help = false;
};

// Adds "--set key=value" to the command.
void add_settings(RunCommandLine& line, const std::vector<std::string>& settings);

// `words` are those after "run". Throws ConfigurationError.
RunCommandLine read_run(std::span<char* const> words);

// Runs the command to its end and returns its exit code (launch/cli/job.h). Throws
// ConfigurationError for a configuration that is no good, before anything is started.
int run_on_ranks(const RunCommandLine& line);

}  // namespace longspan
