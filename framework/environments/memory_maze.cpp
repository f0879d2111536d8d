// A grid with a hidden goal, which must be found again from other cells.
#include <fmt/format.h>

#include "framework/environments/environment.h"

namespace longspan {
namespace {

enum Move : std::int64_t { down, left, right, up };

// Moves along the row first.
Move towards(std::int64_t goal, std::int64_t cell, std::int64_t side) {
  const std::int64_t across = goal % side - cell % side;
  if (across != 0) return across > 0 ? right : left;
  return goal > cell ? down : up;
}

// Returns the cell after a move; moves beyond the edge have no effect.
std::int64_t moved(std::int64_t cell, std::int64_t move, std::int64_t side) {
  switch (move) {
    case down:
      return cell / side + 1 < side ? cell + side : cell;
    case left:
      return cell % side > 0 ? cell - 1 : cell;
    case right:
      return cell % side + 1 < side ? cell + 1 : cell;
    case up:
      return cell >= side ? cell - side : cell;
    default:
      return cell;
  }
}

// Indices of the state.
struct InMaze {
  enum : std::size_t { step, goal, cell, found, numbers };
};

class Maze {
 public:
  Maze(std::int64_t side, std::int64_t steps) : side_(side), steps_(steps) {}

  WorldState begin(const Random& random) const {
    const std::int64_t place = drawn(random, 0, side_ * side_);
    return {0, place, elsewhere(place, 0, random), 0};
  }

  char observation(const WorldState& now) const {
    return static_cast<char>((now[InMaze::cell] == now[InMaze::goal] ? 'A' : 'a') +
                             now[InMaze::cell]);
  }

  // An agent at the goal is teleported elsewhere, whatever the action.
  EnvStep act(WorldState& now, std::int64_t action, const Random& random) const {
    EnvStep outcome;
    ++now[InMaze::step];
    if (now[InMaze::cell] == now[InMaze::goal]) {
      now[InMaze::cell] = elsewhere(now[InMaze::goal], now[InMaze::step], random);
    } else {
      now[InMaze::cell] = moved(now[InMaze::cell], action, side_);
      if (now[InMaze::cell] == now[InMaze::goal]) {
        ++now[InMaze::found];
        outcome.reward = 1;
      }
    }
    if (now[InMaze::step] == steps_) outcome.ending = Termination::time;
    return outcome;
  }

  // Moves along the row first once the goal is found; explores randomly before that.
  ExpertAction advise(const WorldState& now, const Random& random) const {
    if (now[InMaze::cell] == now[InMaze::goal]) return {};
    if (now[InMaze::found] > 0) {
      const Move move = towards(now[InMaze::goal], now[InMaze::cell], side_);
      return {.asked = move, .taken = move};
    }
    const std::vector<std::int64_t> adjacent = neighbors_of(now[InMaze::cell], side_);
    const std::int64_t to = adjacent[static_cast<std::size_t>(
        drawn(random.child("turns"), now[InMaze::step], std::ssize(adjacent)))];
    return {.taken = towards(to, now[InMaze::cell], side_)};
  }

 private:
  // Draws a cell other than the goal.
  std::int64_t elsewhere(std::int64_t place, std::int64_t at_step, const Random& random) const {
    const std::int64_t other = drawn(random.child("places"), at_step, side_ * side_ - 1);
    return other < place ? other : other + 1;
  }

  std::int64_t side_;
  std::int64_t steps_;
};

Environment maze_of(std::int64_t side, std::int64_t steps) {
  const Maze maze(side, steps);
  const auto guide = [maze](const Random& random) {
    return [maze, random](const WorldState& now) { return maze.advise(now, random); };
  };
  return {.description = fmt::format("memory maze of {0} x {0} cells, {1} steps", side, steps),
          .actions = {"down", "left", "right", "up"},
          .steps = steps,
          .numbers = InMaze::numbers,
          .begin = [maze](const Random& random) { return maze.begin(random); },
          .observation = [maze](const WorldState& now) { return maze.observation(now); },
          .act = [maze](WorldState& now,
                        std::int64_t action,
                        const Random& random) { return maze.act(now, action, random); },
          .succeeded = [](const WorldState& now) { return now[InMaze::found] >= 2; },
          .guide = guide};
}

}  // namespace

EnvironmentKind memory_maze() {
  return {.name = "memory_maze",
          .documentation =
              "a walk through cells, seen as lower-case letters, to the hidden goal, an upper-case "
              "letter, which gives reward 1; then the walk restarts elsewhere, and the expert "
              "action is each move towards the goal, along the row first. The task is to remember "
              "the goal",
          .numbers = {{"side", "cells along a side of the square", 4, 2, max_lettered_side},
                      {"steps", "steps of an episode", 80, 2, 1 << 20}},
          .make = [](const EnvironmentNumbers& numbers) {
            return maze_of(numbers.at("side"), numbers.at("steps"));
          }};
}

}  // namespace longspan
