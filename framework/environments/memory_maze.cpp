// A square in which a hidden place is found, and found again from elsewhere.
#include <fmt/format.h>

#include "framework/environments/environment.h"

namespace longspan {
namespace {

enum Move : std::int64_t { down, left, right, up };

// Along the row first.
Move towards(std::int64_t goal, std::int64_t cell, std::int64_t side) {
  const std::int64_t across = goal % side - cell % side;
  if (across != 0) return across > 0 ? right : left;
  return goal > cell ? down : up;
}

std::int64_t moved(std::int64_t cell, Move move, std::int64_t side) {
  switch (move) {
    case down:
      return cell + side;
    case left:
      return cell - 1;
    case right:
      return cell + 1;
    case up:
      return cell - side;
  }
  return cell;
}

Episode walked(std::int64_t side, std::int64_t steps, const Random& random) {
  const std::int64_t goal = drawn(random, 0, side * side);
  // Any other cell.
  const auto elsewhere = [&](std::int64_t step) {
    const std::int64_t cell = drawn(random.child("places"), step, side * side - 1);
    return cell < goal ? cell : cell + 1;
  };
  const Random turns = random.child("turns");
  Episode episode;
  bool is_found = false;
  std::int64_t cell = elsewhere(0);
  for (std::int64_t step = 0; step < steps; ++step) {
    if (cell == goal) {
      is_found = true;
      episode.observations += static_cast<char>('A' + cell);
      episode.actions.push_back(no_action);
      cell = elsewhere(step + 1);
      continue;
    }
    episode.observations += static_cast<char>('a' + cell);
    if (is_found) {
      const Move move = towards(goal, cell, side);
      episode.actions.push_back(move);
      cell = moved(cell, move, side);
    } else {
      episode.actions.push_back(no_action);
      const std::vector<std::int64_t> beside = neighbours_of(cell, side);
      cell = beside[static_cast<std::size_t>(drawn(turns, step, std::ssize(beside)))];
    }
  }
  return episode;
}

}  // namespace

EnvironmentKind memory_maze() {
  return {.name = "memory_maze",
          .documentation =
              "cells, seen as small letters, are walked through until the hidden one is met, a "
              "capital letter; then the walk begins again elsewhere, and asked for is each move "
              "towards it, along the row first",
          .numbers = {{"side", "cells along a side of the square", 4, 2, most_lettered_side},
                      {"steps", "steps of an episode", 80, 2, 1 << 20}},
          .make = [](const EnvironmentNumbers& numbers) -> Environment {
            const std::int64_t side = numbers.at("side"), steps = numbers.at("steps");
            return {.description =
                        fmt::format("memory maze of {0} x {0} cells, {1} steps", side, steps),
                    .actions = {"down", "left", "right", "up"},
                    .steps = steps,
                    .episode = [=](const Random& random) { return walked(side, steps, random); }};
          }};
}

}  // namespace longspan
