// Clock offsets from simulated exchanges.
#include <gtest/gtest.h>

#include <vector>

#include "framework/core/random.h"
#include "framework/profiling/trace_text.h"

namespace longspan::clock_offset_test {
namespace {

// Two clocks, and messages with a delay of at least `least` nanoseconds, sometimes much more.
// The side that is ready later receives the other's message at once.
std::vector<ClockExchange> exchanges_of(std::int64_t offset,
                                        std::int64_t least,
                                        std::uint64_t seed) {
  const Random random = Random(seed).child("delays");
  std::uint64_t drawn = 0;
  const auto delay = [&] {
    const double more = random.uniform_at(drawn++);
    return least + static_cast<std::int64_t>(more * more * more * 200000);
  };
  std::vector<ClockExchange> result;
  std::int64_t first = 5'000'000'000;  // true time at which each is ready
  std::int64_t other = first + 700'000;
  for (int i = 0; i < 16; ++i) {
    const std::int64_t at_other = std::max(other, first + delay());
    const std::int64_t at_first = std::max(first, other + delay());
    result.push_back({first, at_first, other + offset, at_other + offset});
    first = at_first + 300;
    other = at_other + 300;
  }
  return result;
}

TEST(ClockOffset, ErrorStaysWithinUncertainty) {
  for (const std::int64_t offset :
       {std::int64_t{0}, std::int64_t{-123'456'789}, std::int64_t{987'654'321'000'000}})
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      const ClockOffset found = clock_offset(exchanges_of(offset, 2000, seed));
      EXPECT_LE(std::abs(found.offset - offset), found.uncertainty);
      EXPECT_LE(found.uncertainty, 60000);
    }
}

TEST(ClockOffset, IsExactForSymmetricDelays) {
  const ClockExchange exchange = {
      .first_sent = 100, .first_received = 140, .other_sent = 1110, .other_received = 1130};
  const ClockOffset found = clock_offset(std::vector{exchange});
  EXPECT_EQ(found.offset, 1000);
  EXPECT_EQ(found.uncertainty, 30);
}

TEST(ClockOffset, IgnoresSlowExchanges) {
  const ClockExchange good = {0, 20, 1000, 1020};
  const ClockExchange late = {0, 90020, 1000, 1020};
  EXPECT_EQ(clock_offset(std::vector{late, good, late}).offset, 1000);
}

}  // namespace
}  // namespace longspan::clock_offset_test
