// A pad of keys on which a hidden sequence is to be pressed.
#include <fmt/format.h>

#include <algorithm>

#include "framework/environments/environment.h"

namespace longspan {
namespace {

// What is found out of a sequence of keys, each beside the one before: how far the presses have
// come, which keys are known to be right, and which to be wrong, at each place.
class Pad {
 public:
  Pad(std::int64_t side, std::int64_t length, const Random& random)
      : side_(side), known_(static_cast<std::size_t>(length), false), tried_(known_.size()) {
    sequence_.push_back(drawn(random, 0, side * side));
    while (std::ssize(sequence_) < length) {
      const std::vector<std::int64_t> beside = neighbours_of(sequence_.back(), side);
      const auto place = static_cast<std::int64_t>(sequence_.size());
      sequence_.push_back(
          beside[static_cast<std::size_t>(drawn(random, place, std::ssize(beside)))]);
    }
  }

  // The key that is right now, where it is known.
  std::int64_t recalled() const { return known_[place_] ? sequence_[place_] : no_action; }

  // What is pressed: the known key, or one of those that may be right.
  std::int64_t choice(const Random& random, std::int64_t step) const {
    if (known_[place_]) return sequence_[place_];
    std::vector<std::int64_t> keys;
    if (place_ == 0)
      for (std::int64_t key = 0; key < side_ * side_; ++key) keys.push_back(key);
    else
      keys = neighbours_of(sequence_[place_ - 1], side_);
    std::erase_if(keys,
                  [&](std::int64_t key) { return std::ranges::count(tried_[place_], key) > 0; });
    return keys[static_cast<std::size_t>(drawn(random, step, std::ssize(keys)))];
  }

  // Whether the key is right. A wrong one, and the last one, begin the sequence anew.
  bool press(std::int64_t key) {
    const bool is_right = key == sequence_[place_];
    if (is_right)
      known_[place_] = true;
    else if (!known_[place_])
      tried_[place_].push_back(key);
    place_ = is_right && place_ + 1 < sequence_.size() ? place_ + 1 : 0;
    return is_right;
  }

 private:
  std::int64_t side_;
  std::vector<std::int64_t> sequence_;
  std::size_t place_ = 0;
  std::vector<bool> known_;
  std::vector<std::vector<std::int64_t>> tried_;
};

Episode pressed(std::int64_t side, std::int64_t length, std::int64_t steps, const Random& random) {
  Pad pad(side, length, random.child("sequence"));
  const Random choices = random.child("choices");
  Episode episode = {.observations = "*", .actions = {}};
  for (std::int64_t step = 0; step < steps; ++step) {
    episode.actions.push_back(pad.recalled());
    const std::int64_t key = pad.choice(choices, step);
    const bool is_right = pad.press(key);
    if (step + 1 < steps) episode.observations += static_cast<char>((is_right ? 'A' : 'a') + key);
  }
  return episode;
}

}  // namespace

EnvironmentKind number_pad() {
  return {
      .name = "number_pad",
      .documentation =
          "a hidden sequence of keys, each beside the one before, is found out by pressing: a "
          "right key is seen as a capital letter, a wrong one, which begins it anew, as a small "
          "one; asked for is each key that was found before",
      .numbers = {{"side", "keys along a side of the pad", 3, 2, most_lettered_side},
                  {"sequence", "keys of the sequence", 4, 1, 64},
                  {"steps", "presses of an episode", 60, 2, 1 << 20}},
      .make = [](const EnvironmentNumbers& numbers) -> Environment {
        const std::int64_t side = numbers.at("side"), length = numbers.at("sequence");
        const std::int64_t steps = numbers.at("steps");
        std::vector<std::string> keys;
        for (std::int64_t key = 0; key < side * side; ++key)
          keys.emplace_back(1, static_cast<char>('A' + key));
        return {
            .description = fmt::format(
                "number pad of {0} x {0} keys, sequences of {1}, {2} presses", side, length, steps),
            .actions = keys,
            .steps = steps,
            .episode = [=](const Random& random) { return pressed(side, length, steps, random); }};
      }};
}

}  // namespace longspan
