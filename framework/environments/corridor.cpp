// A corridor with a sign at its beginning, and a fork at its end where the sign counts.
#include <fmt/format.h>

#include "framework/environments/environment.h"

namespace longspan {
namespace {

// The numbers of a situation.
struct InCorridor {
  enum : std::size_t { step, way, arrived, numbers };
};

Environment corridor_of(std::int64_t length) {
  const std::int64_t fork = length + 1;
  const auto guide = [fork](const Random&) {
    return [fork](const WorldState& now) -> ExpertAction {
      if (now[InCorridor::step] < fork) return {};
      return {.asked = now[InCorridor::way], .taken = now[InCorridor::way]};
    };
  };
  return {.description = fmt::format("corridor of length {}", length),
          .actions = {"left", "right"},
          .steps = length + 2,
          .numbers = InCorridor::numbers,
          .begin = [](const Random& random) -> WorldState {
            return {0, drawn(random, 0, 2), 0};
          },
          .observation =
              [fork](const WorldState& now) {
                if (now[InCorridor::step] == 0) return now[InCorridor::way] == 0 ? 'L' : 'R';
                return now[InCorridor::step] < fork ? '.' : '?';
              },
          .act = [fork](WorldState& now, std::int64_t action, const Random&) -> EnvStep {
            if (now[InCorridor::step]++ < fork) return {};
            now[InCorridor::arrived] = action == now[InCorridor::way] ? 1 : 0;
            return {.reward = now[InCorridor::arrived] == 1 ? 1.0 : -1.0,
                    .ending = Termination::terminal};
          },
          .succeeded = [](const WorldState& now) { return now[InCorridor::arrived] == 1; },
          .guide = guide};
}

}  // namespace

EnvironmentKind t_maze() {
  return {
      .name = "corridor",
      .documentation =
          "a sign, L or R, then a corridor, and at its end a fork where it says which way, the "
          "only step at which an action counts: 1 for the right one, -1 for the other",
      .numbers = {{"length", "steps between the sign and the fork", 10, 0, 1 << 24}},
      .make = [](const EnvironmentNumbers& numbers) { return corridor_of(numbers.at("length")); }};
}

}  // namespace longspan
