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

// Where a life in an environment stands: all of it, as a few integers whose meaning is the kind's.
using WorldState = std::vector<std::int64_t>;

enum class Termination : std::uint8_t {
  none,
  terminal,  // nothing follows
  time       // more would have followed, but the steps of an episode are used up
};

// What comes of an action.
struct EnvStep {
  double reward = 0;
  Termination ending = Termination::none;
};

// What who acts rightly does: the action that is asked for, or no_action where none is, and the
// action that is taken, which is then a guess.
struct ExpertAction {
  std::int64_t asked = no_action;
  std::int64_t taken = 0;
};

// A life of who acts rightly: of each step what is seen, as a byte, and what is right then, an
// index of Environment::actions. What is asked for can be told from what was seen up to that step.
struct Episode {
  std::string observations;
  std::vector<std::int64_t> actions;
};

// A value: a world that one acts in. An episode begins with `begin`, and `act` takes it from
// situation to situation until it ends. What happens is a function of the random numbers of the
// episode, which are the same in all its calls, and of the actions.
struct Environment {
  std::string description;           // "corridor of length 10"
  std::vector<std::string> actions;  // sorted
  std::int64_t steps = 0;            // of an episode, at most
  std::size_t numbers = 0;           // of a Situation

  std::function<WorldState(const Random&)> begin;
  // What is seen there, also after an ending by time.
  std::function<char(const WorldState&)> observation;
  // `action`: an index of `actions`. The situation becomes the next one. Not after an ending.
  std::function<EnvStep(WorldState&, std::int64_t action, const Random&)> act;
  // Whether the episode has come to what is wanted of it.
  std::function<bool(const WorldState&)> succeeded;
  // Who acts rightly, by what the calls of one episode have told: to be asked once a step.
  std::function<std::function<ExpertAction(const WorldState&)>(const Random&)> guide;

  Episode episode(const Random& random) const;
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
EnvironmentKind t_maze();
EnvironmentKind memory_maze();
EnvironmentKind numpad();

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
