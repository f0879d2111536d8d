// Small environments whose correct actions depend on distant observations: the memory tasks of
// GTrXL (Parisotto et al. 2019), and associative recall (Arora et al. 2023).
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

// No action is scored at this step.
inline constexpr std::int64_t no_action = -1;

// Full state of an episode, as a few integers with environment-specific meaning.
using WorldState = std::vector<std::int64_t>;

enum class Termination : std::uint8_t {
  none,
  terminal,  // terminal state
  time       // truncated at the episode's step limit
};

// The result of an action.
struct EnvStep {
  double reward = 0;
  Termination ending = Termination::none;
};

// The expert's decision: the scored action, or no_action where none is scored, and the action
// taken, which is then a guess.
struct ExpertAction {
  std::int64_t asked = no_action;
  std::int64_t taken = 0;
};

// An expert episode: for each step the observation, as a byte, and the correct action, an index of
// Environment::actions. The scored actions are determined by the observations up to that step.
struct Episode {
  std::string observations;
  std::vector<std::int64_t> actions;
};

// A value type: an environment. `begin` starts an episode, and `act` changes its state until it
// ends. Transitions are a function of the actions and the episode's random numbers, which are
// identical in all its calls.
struct Environment {
  std::string description;           // "T-maze of length 10"
  std::vector<std::string> actions;  // sorted
  std::int64_t steps = 0;            // maximum per episode
  std::size_t numbers = 0;           // integers of a WorldState

  std::function<WorldState(const Random&)> begin;
  // Returns the observation, also after truncation.
  std::function<char(const WorldState&)> observation;
  // `action`: an index of `actions`. Updates the state. Requires that the episode has not ended.
  std::function<EnvStep(WorldState&, std::int64_t action, const Random&)> act;
  // Returns whether the episode has reached its goal.
  std::function<bool(const WorldState&)> succeeded;
  // Returns an expert policy for one episode, which learns only from its calls in that episode.
  // Call it once a step.
  std::function<std::function<ExpertAction(const WorldState&)>(const Random&)> guide;

  Episode episode(const Random& random) const;
};

// Parameters of an environment, by name.
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

// To add an environment, add a file and a line in environment.cpp.
std::span<const EnvironmentKind> environment_kinds();
EnvironmentKind t_maze();
EnvironmentKind memory_maze();
EnvironmentKind numpad();
EnvironmentKind associative_recall();

// Parses the kind's name, then parameter names each with its value; "#" begins a comment up to the
// end of the line. Throws DataError, prefixed with `place`.
Environment parse_environment(std::string_view text, const std::string& place);

// Returns the random number below `count` at index `place`.
inline std::int64_t drawn(const Random& random, std::int64_t place, std::int64_t count) {
  return static_cast<std::int64_t>(random.word(static_cast<std::uint64_t>(place)) %
                                   static_cast<std::uint64_t>(count));
}

// Grid of side x side cells, numbered row by row, each with a letter.
std::vector<std::int64_t> neighbors_of(std::int64_t cell, std::int64_t side);
inline constexpr std::int64_t max_lettered_side = 5;

}  // namespace longspan
