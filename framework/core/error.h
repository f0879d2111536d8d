// Errors: one sentence that says the place, what was found and what was wanted, and the exit code
// it ends in.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace longspan {

// What a process returns. Other people's scripts rely on these numbers.
enum class ExitCode : int {
  ok = 0,
  failure = 1,
  configuration = 2,  // bad command line or configuration
  data = 3,           // bad data, tokenizer or checkpoint
  diverged = 4,       // training diverged
  rank_failed = 5,    // a rank failed or hung
  stopped = 75,       // stopped on request: start it again to go on
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& sentence) : std::runtime_error(sentence), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// One class for each exit code that code below `main` throws; `E` is the code.
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

// Throws ConfigurationError with what is wrong; nothing is where the sentence is empty.
inline void throw_if_error(const std::string& problem) {
  if (!problem.empty()) throw ConfigurationError("{}", problem);
}

// Throws Failure with the sentence unless `condition` holds: for what only a defect of the program
// can break.
template <typename... Arguments>
void require(bool condition, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (!condition) throw Failure(format, std::forward<Arguments>(arguments)...);
}

}  // namespace longspan
