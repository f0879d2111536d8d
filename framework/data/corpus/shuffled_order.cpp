#include "framework/data/corpus/shuffled_order.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "framework/core/error.h"

namespace longspan {

std::int64_t shuffled_index(const Random& random, std::int64_t count, std::int64_t at) {
  require(
      count >= 1 && at >= 0 && at < count, "position {} is out of range ({} positions)", at, count);
  constexpr std::uint64_t rounds = 6;
  const auto width = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count - 1)));
  const int half = std::max(1, (width + 1) / 2);
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  auto value = static_cast<std::uint64_t>(at);
  do {
    std::uint64_t left = value >> half, right = value & mask;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const auto words = random.block(right * rounds + round);
      const std::uint64_t mixed = words[0] | (std::uint64_t{words[1]} << 32);
      left = std::exchange(right, left ^ (mixed & mask));
    }
    value = (left << half) | right;
  } while (value >= static_cast<std::uint64_t>(count));
  return static_cast<std::int64_t>(value);
}

}  // namespace longspan
