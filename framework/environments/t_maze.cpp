// A corridor with a cue at its start and a fork at its end, where the cue determines the turn.
#include <fmt/format.h>

#include "framework/environments/environment.h"

namespace longspan {
namespace {

// Indices of the state.
struct InTMaze {
  enum : std::size_t { step, way, arrived, numbers };
};

Environment t_maze_of(std::int64_t length) {
  const std::int64_t fork = length + 1;
  const auto guide = [fork](const Random&) {
    return [fork](const WorldState& now) -> ExpertAction {
      if (now[InTMaze::step] < fork) return {};
      return {.asked = now[InTMaze::way], .taken = now[InTMaze::way]};
    };
  };
  return {.description = fmt::format("T-maze of length {}", length),
          .actions = {"left", "right"},
          .steps = length + 2,
          .numbers = InTMaze::numbers,
          .begin = [](const Random& random) -> WorldState {
            return {0, drawn(random, 0, 2), 0};
          },
          .observation =
              [fork](const WorldState& now) {
                if (now[InTMaze::step] == 0) return now[InTMaze::way] == 0 ? 'L' : 'R';
                return now[InTMaze::step] < fork ? '.' : '?';
              },
          .act = [fork](WorldState& now, std::int64_t action, const Random&) -> EnvStep {
            if (now[InTMaze::step]++ < fork) return {};
            now[InTMaze::arrived] = action == now[InTMaze::way] ? 1 : 0;
            return {.reward = now[InTMaze::arrived] == 1 ? 1.0 : -1.0,
                    .ending = Termination::terminal};
          },
          .succeeded = [](const WorldState& now) { return now[InTMaze::arrived] == 1; },
          .guide = guide};
}

}  // namespace

EnvironmentKind t_maze() {
  return {
      .name = "t_maze",
      .documentation =
          "a sign, L or R, then a corridor that ends in a fork, where the sign gives the "
          "direction; only the action at the fork has a reward, 1 for the correct one, -1 for the "
          "other",
      .numbers = {{"length", "steps between the sign and the fork", 10, 0, 1 << 24}},
      .make = [](const EnvironmentNumbers& numbers) { return t_maze_of(numbers.at("length")); }};
}

}  // namespace longspan
