// Mistakes in a configuration, each with its place, and how they are told.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace longspan {

// So many mistakes are told; of the others how many they are.
inline constexpr std::size_t most_told = 20;

// The place in a file, counted from 1; without a file it stands for the command line.
struct SourceLocation {
  std::string file;
  int line = 0;
  int column = 0;

  // "file:line:column", or "--set".
  std::string to_string() const;
};

// Something wrong at a place.
struct Diagnostic {
  SourceLocation mark;
  std::string message;
  std::string key = {};      // what it is about, where it is about a key
  bool unknown_key = false;  // there is no such key
};

// "place: message" of each: first what has no line, such as missing keys, then in the order of the
// file, then the command line.
std::vector<std::string> lines_of(std::vector<Diagnostic> complaints);

// Throws ConfigurationError with the first `most_told` of these lines and how many more there are;
// nothing is where there is no complaint.
void throw_if_any(std::vector<Diagnostic> complaints);

}  // namespace longspan
