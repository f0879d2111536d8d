// Exceptions: one message with the location, the found and the expected value, and the exit code.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace longspan {

// Exit codes of the process. Third-party scripts depend on these values.
enum class ExitCode : int {
  ok = 0,
  failure = 1,
  configuration = 2,  // bad command line or configuration
  data = 3,           // bad data, tokenizer or checkpoint
  diverged = 4,       // training diverged
  rank_failed = 5,    // a rank failed or hung
  stopped = 75,       // stopped on request; restart to resume
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& sentence) : std::runtime_error(sentence), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// One exception class for each exit code thrown below `main`; `E` is the code.
template <ExitCode E>
class ErrorOf : public Error {
 public:
  template <typename... Arguments>
  explicit ErrorOf(fmt::format_string<Arguments...> format, Arguments&&... arguments)
      : Error(E, fmt::format(format, std::forward<Arguments>(arguments)...)) {}
};

using Failure = ErrorOf<ExitCode::failure>;
using ConfigurationError = ErrorOf<ExitCode::configuration>;
using DataError = ErrorOf<ExitCode::data>;
using DivergedError = ErrorOf<ExitCode::diverged>;
using RankError = ErrorOf<ExitCode::rank_failed>;

// Throws ConfigurationError with `problem` unless it is empty.
inline void throw_if_error(const std::string& problem) {
  if (!problem.empty()) throw ConfigurationError("{}", problem);
}

// Throws Failure with the message unless `condition` holds. For invariants that only a defect of
// the program can violate.
template <typename... Arguments>
void require(bool condition, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (!condition) throw Failure(format, std::forward<Arguments>(arguments)...);
}

}  // namespace longspan
