// Configuration errors with their locations, and how they are reported.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace longspan {

// Maximum number of reported errors; the remaining ones are counted.
inline constexpr std::size_t max_reported = 50;

// A location in a file, counted from 1; without a file, the command line.
struct SourceLocation {
  std::string file;
  int line = 0;
  int column = 0;

  // "file:line:column", or "--set".
  std::string to_string() const;
};

// An error at a location.
struct Diagnostic {
  SourceLocation mark;
  std::string message;
  std::string key = {};      // the key concerned, if any
  bool unknown_key = false;  // the key does not exist
};

// Returns "place: message" of each. Errors without a line, such as missing keys, come first, then
// in file order, then of the command line.
std::vector<std::string> lines_of(std::vector<Diagnostic> complaints);

// Throws ConfigurationError with the first `max_reported` of these lines and the number of
// remaining ones. Does nothing without errors.
void throw_if_any(std::vector<Diagnostic> complaints);

}  // namespace longspan
