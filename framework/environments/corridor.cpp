// A corridor with a sign at its beginning, and a fork at its end where the sign counts.
#include <fmt/format.h>

#include "framework/environments/environment.h"

namespace longspan {

EnvironmentKind corridor() {
  return {.name = "corridor",
          .documentation =
              "a sign, L or R, then a corridor, and at its end a fork where it says which way",
          .numbers = {{"length", "steps between the sign and the fork", 10, 0, 1 << 24}},
          .make = [](const EnvironmentNumbers& numbers) -> Environment {
            const std::int64_t length = numbers.at("length");
            return {.description = fmt::format("corridor of length {}", length),
                    .actions = {"left", "right"},
                    .steps = length + 2,
                    .episode = [length](const Random& random) -> Episode {
                      const std::int64_t way = drawn(random, 0, 2);
                      const auto between = static_cast<std::size_t>(length);
                      Episode episode = {
                          .observations = (way == 0 ? "L" : "R") + std::string(between, '.') + "?",
                          .actions = std::vector<std::int64_t>(between + 2, no_action)};
                      episode.actions.back() = way;
                      return episode;
                    }};
          }};
}

}  // namespace longspan
