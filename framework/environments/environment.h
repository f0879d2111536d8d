// Small worlds in which what is right depends on what was seen long before (GTrXL, Parisotto et al.
// 2019, and the memory tasks of its experiments).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/random.h"

namespace longspan {

// No action is asked for at this step.
inline constexpr std::int64_t no_action = -1;

// A life in an environment: of each step what is seen, as a byte, and what is right then, an index
// of Environment::actions. What is asked for can be told from what was seen up to that step.
struct Episode {
  std::string observations;
  std::vector<std::int64_t> actions;
};

// A value. Its episodes are functions of the random numbers that they are made with, and of nothing
// else: who acts in them does so by rules of the environment.
struct Environment {
  std::string description;           // "corridor of length 10"
  std::vector<std::string> actions;  // sorted
  std::int64_t steps = 0;            // of each episode
  std::function<Episode(const Random&)> episode;
};

// What an environment is made of, by name.
using EnvironmentNumbers = std::map<std::string, std::int64_t, std::less<>>;

struct EnvironmentNumber {
  std::string name;
  std::string documentation;
  std::int64_t usual = 0;
  std::int64_t least = 0;
  std::int64_t most = 0;
};

struct EnvironmentKind {
  std::string name;
  std::string documentation;  // one line
  std::vector<EnvironmentNumber> numbers;
  std::function<Environment(const EnvironmentNumbers&)> make;
};

// A new environment is a file and a line in environment.cpp.
std::span<const EnvironmentKind> environment_kinds();
EnvironmentKind corridor();
EnvironmentKind memory_maze();
EnvironmentKind number_pad();

// By a text: the kind's name, then names of numbers each with its value; "#" begins a comment that
// goes to the end of its line. Throws DataError, whose sentence begins with `place`.
Environment parse_environment(std::string_view text, const std::string& place);

// A number below `count`, of that place.
inline std::int64_t drawn(const Random& random, std::int64_t place, std::int64_t count) {
  return static_cast<std::int64_t>(random.word(static_cast<std::uint64_t>(place)) %
                                   static_cast<std::uint64_t>(count));
}

// Squares of side x side cells, numbered row by row, that have a letter each.
std::vector<std::int64_t> neighbours_of(std::int64_t cell, std::int64_t side);
inline constexpr std::int64_t most_lettered_side = 5;

}  // namespace longspan
