// A number pad on which a hidden sequence of keys must be pressed.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "framework/environments/environment.h"

namespace longspan {
namespace {

// Indices of the state, followed by the keys of the sequence.
struct InPad {
  enum : std::size_t { step, place, key, is_right, completed, sequence };
};

class Pad {
 public:
  Pad(std::int64_t side, std::int64_t length, std::int64_t steps)
      : side_(side), length_(static_cast<std::size_t>(length)), steps_(steps) {}

  std::int64_t side() const { return side_; }
  std::size_t length() const { return length_; }
  std::size_t numbers() const { return InPad::sequence + length_; }

  // Each key of the sequence is adjacent to the previous one.
  WorldState begin(const Random& random) const {
    const Random of_keys = random.child("sequence");
    WorldState now(InPad::sequence, 0);
    now.push_back(drawn(of_keys, 0, side_ * side_));
    for (std::size_t i = 1; i < length_; ++i) {
      const std::vector<std::int64_t> adjacent = neighbors_of(now.back(), side_);
      const auto at = static_cast<std::int64_t>(i);
      now.push_back(adjacent[static_cast<std::size_t>(drawn(of_keys, at, std::ssize(adjacent)))]);
    }
    return now;
  }

  char observation(const WorldState& now) const {
    if (now[InPad::step] == 0) return '*';
    return static_cast<char>((now[InPad::is_right] == 1 ? 'A' : 'a') + now[InPad::key]);
  }

  // A wrong key, and the last key of the sequence, restart it.
  EnvStep act(WorldState& now, std::int64_t action) const {
    ++now[InPad::step];
    now[InPad::key] = action;
    now[InPad::is_right] =
        action == now[InPad::sequence + static_cast<std::size_t>(now[InPad::place])] ? 1 : 0;
    now[InPad::place] = now[InPad::is_right] == 1 ? now[InPad::place] + 1 : 0;
    if (now[InPad::place] == std::ssize(now) - static_cast<std::int64_t>(InPad::sequence)) {
      now[InPad::place] = 0;
      ++now[InPad::completed];
    }
    return {.reward = static_cast<double>(now[InPad::is_right]),
            .ending = now[InPad::step] == steps_ ? Termination::time : Termination::none};
  }

 private:
  std::int64_t side_;
  std::size_t length_;
  std::int64_t steps_;
};

// Learns the sequence by trial: tracks the keys known to be right or wrong at each position.
class Finder {
 public:
  Finder(const Pad& pad, const Random& random)
      : side_(pad.side()),
        random_(random.child("choices")),
        known_(pad.length(), no_action),
        tried_(pad.length()) {}

  ExpertAction operator()(const WorldState& now) {
    if (now[InPad::step] > 0) learn(now);
    place_ = static_cast<std::size_t>(now[InPad::place]);
    const std::int64_t known = known_[place_];
    if (known != no_action) return {.asked = known, .taken = known};
    return {.taken = guess(now[InPad::step])};
  }

 private:
  void learn(const WorldState& now) {
    if (now[InPad::is_right] == 1)
      known_[place_] = now[InPad::key];
    else if (known_[place_] == no_action)
      tried_[place_].push_back(now[InPad::key]);
  }

  // Draws one of the candidate keys.
  std::int64_t guess(std::int64_t at_step) const {
    std::vector<std::int64_t> keys;
    if (place_ == 0)
      for (std::int64_t any = 0; any < side_ * side_; ++any) keys.push_back(any);
    else
      keys = neighbors_of(known_[place_ - 1], side_);
    std::erase_if(keys,
                  [&](std::int64_t any) { return std::ranges::count(tried_[place_], any) > 0; });
    return keys[static_cast<std::size_t>(drawn(random_, at_step, std::ssize(keys)))];
  }

  std::int64_t side_;
  Random random_;
  std::size_t place_ = 0;
  std::vector<std::int64_t> known_;
  std::vector<std::vector<std::int64_t>> tried_;
};

Environment pad_of(std::int64_t side, std::int64_t length, std::int64_t steps) {
  const Pad pad(side, length, steps);
  std::vector<std::string> keys;
  for (std::int64_t any = 0; any < side * side; ++any)
    keys.emplace_back(1, static_cast<char>('A' + any));
  const auto guide = [pad](const Random& random) {
    return [finder = std::make_shared<Finder>(pad, random)](const WorldState& now) {
      return (*finder)(now);
    };
  };
  return {.description = fmt::format(
              "numpad of {0} x {0} keys, sequences of {1}, {2} presses", side, length, steps),
          .actions = keys,
          .steps = steps,
          .numbers = pad.numbers(),
          .begin = [pad](const Random& random) { return pad.begin(random); },
          .observation = [pad](const WorldState& now) { return pad.observation(now); },
          .act = [pad](WorldState& now,
                       std::int64_t action,
                       const Random&) { return pad.act(now, action); },
          .succeeded = [](const WorldState& now) { return now[InPad::completed] >= 2; },
          .guide = guide};
}

}  // namespace

EnvironmentKind numpad() {
  return {.name = "numpad",
          .documentation =
              "a hidden sequence of adjacent keys to find by pressing: a correct key gives reward "
              "1 and is seen as an upper-case letter, a wrong one restarts the sequence and is "
              "seen as a lower-case letter; the expert action is each key found before. The task "
              "is to press the whole sequence twice",
          .numbers = {{"side", "keys along a side of the pad", 3, 2, max_lettered_side},
                      {"sequence", "keys of the sequence", 4, 1, 64},
                      {"steps", "presses of an episode", 60, 2, 1 << 20}},
          .make = [](const EnvironmentNumbers& numbers) {
            return pad_of(numbers.at("side"), numbers.at("sequence"), numbers.at("steps"));
          }};
}

}  // namespace longspan
