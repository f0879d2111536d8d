// longspan run: starts a command on several ranks, and lets a person stop it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace longspan {

// A command line of `longspan run`, cut where it says "--".
struct RunCommandLine {
  std::optional<int> ranks;
  std::vector<std::string> options;  // mpirun's
  std::vector<std::string> command;  // of this program, to be started on the ranks
  bool wants_help = false;
};

// `words` are those after "run". Throws ConfigurationError.
RunCommandLine read_run(std::span<char* const> words);

// Runs the command to its end and returns its exit code (launch/job.h). Throws ConfigurationError
// for a configuration that is no good, before anything is started.
int run_on_ranks(const RunCommandLine& line);

}  // namespace longspan
