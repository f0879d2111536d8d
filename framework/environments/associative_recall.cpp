// Multi-query associative recall (MQAR, Arora et al. 2023): pairs of a key and a value, then each
// key again, whose value is the correct action.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "framework/environments/environment.h"

namespace longspan {
namespace {

// Observations: keys are printable ASCII, values are bytes from 128 on.
constexpr std::int64_t num_keys = 94;
constexpr std::int64_t first_key = '!';
constexpr std::int64_t max_values = 128;
constexpr std::int64_t first_value = 128;

// Indices of the state, followed by the keys, the values and the queried pairs.
struct InRecall {
  enum : std::size_t { step, correct, keys };
};

// Returns the first `count` elements of a random permutation of 0 to size - 1.
std::vector<std::int64_t> permuted(const Random& random, std::int64_t size, std::int64_t count) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::int64_t i = 0; i < count; ++i)
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(i + drawn(random, i, size - i))]);
  order.resize(static_cast<std::size_t>(count));
  return order;
}

class PairList {
 public:
  PairList(std::int64_t pairs, std::int64_t values) : pairs_(pairs), values_(values) {}

  std::int64_t steps() const { return 3 * pairs_; }
  std::size_t numbers() const { return InRecall::keys + static_cast<std::size_t>(steps()); }

  WorldState begin(const Random& random) const {
    WorldState now(InRecall::keys, 0);
    std::ranges::copy(permuted(random.child("keys"), num_keys, pairs_), std::back_inserter(now));
    const Random of_values = random.child("values");
    for (std::int64_t i = 0; i < pairs_; ++i) now.push_back(drawn(of_values, i, values_));
    std::ranges::copy(permuted(random.child("queries"), pairs_, pairs_), std::back_inserter(now));
    return now;
  }

  char observation(const WorldState& now) const {
    // After the last query the observation is that of the last one.
    const std::int64_t step = std::min(now[InRecall::step], steps() - 1);
    const bool is_value = step < 2 * pairs_ && step % 2 == 1;
    const std::int64_t pair = step < 2 * pairs_ ? step / 2 : queried(now, step);
    return static_cast<char>(is_value ? first_value + value(now, pair)
                                      : first_key + key(now, pair));
  }

  EnvStep act(WorldState& now, std::int64_t action) const {
    const bool is_correct = action == scored_action(now);
    now[InRecall::correct] += is_correct ? 1 : 0;
    ++now[InRecall::step];
    return {.reward = is_correct ? 1.0 : 0.0,
            .ending = now[InRecall::step] == steps() ? Termination::terminal : Termination::none};
  }

  bool succeeded(const WorldState& now) const { return now[InRecall::correct] == pairs_; }

  // Returns the value of the queried key; no_action outside the queries.
  std::int64_t scored_action(const WorldState& now) const {
    const std::int64_t step = now[InRecall::step];
    const bool is_query = step >= 2 * pairs_ && step < steps();
    return is_query ? value(now, queried(now, step)) : no_action;
  }

 private:
  static std::int64_t number(const WorldState& now, std::int64_t index) {
    return now[InRecall::keys + static_cast<std::size_t>(index)];
  }
  std::int64_t key(const WorldState& now, std::int64_t pair) const { return number(now, pair); }
  std::int64_t value(const WorldState& now, std::int64_t pair) const {
    return number(now, pairs_ + pair);
  }
  std::int64_t queried(const WorldState& now, std::int64_t step) const {
    return number(now, step);  // the queried pairs follow the 2 * pairs_ keys and values
  }

  std::int64_t pairs_;
  std::int64_t values_;
};

Environment recall_of(std::int64_t pairs, std::int64_t values) {
  const PairList list(pairs, values);
  std::vector<std::string> names;
  for (std::int64_t value = 0; value < values; ++value)
    names.push_back(fmt::format("{:03}", value));
  const auto guide = [list](const Random&) {
    return [list](const WorldState& now) -> ExpertAction {
      const std::int64_t scored = list.scored_action(now);
      return {.asked = scored, .taken = std::max(scored, std::int64_t{0})};
    };
  };
  return {.description =
              fmt::format("associative recall of {} pairs with {} different values", pairs, values),
          .actions = names,
          .steps = list.steps(),
          .numbers = list.numbers(),
          .begin = [list](const Random& random) { return list.begin(random); },
          .observation = [list](const WorldState& now) { return list.observation(now); },
          .act = [list](WorldState& now,
                        std::int64_t action,
                        const Random&) { return list.act(now, action); },
          .succeeded = [list](const WorldState& now) { return list.succeeded(now); },
          .guide = guide};
}

}  // namespace

EnvironmentKind associative_recall() {
  return {.name = "associative_recall",
          .documentation =
              "pairs of a key and a value, then each key once more, in another random order; the "
              "correct action at these queries is the value of the key, with reward 1. Keys of an "
              "episode differ, values may be equal. Success is every query answered",
          .numbers = {{"pairs", "keys with a value, and queries", 8, 1, num_keys},
                      {"values", "different values", 64, 2, max_values}},
          .make = [](const EnvironmentNumbers& numbers) {
            return recall_of(numbers.at("pairs"), numbers.at("values"));
          }};
}

}  // namespace longspan
