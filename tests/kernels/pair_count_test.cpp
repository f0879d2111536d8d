#include "framework/kernels/attention/pair_count.h"

#include <gtest/gtest.h>

#include "tests/kernels/mask_testing.h"

namespace longspan::testing::pair_count_test {
namespace {

TEST(PairCount, MatchesTilePlan) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    Draws draws(Random(9).child(seed));
    // Past several periods of most masks.
    const std::int64_t positions = 1 + draws.pick(draws.one_in(4) ? 20000 : 2000);
    const Mask mask = random_mask(draws, positions);
    const PlanShape shape{.query_begin = draws.one_in(2) ? 0 : draws.pick(200),
                          .time = draws.pick(positions),
                          .key_begin = draws.one_in(2) ? 0 : draws.pick(200),
                          .keys = draws.pick(positions)};
    ASSERT_EQ(count_pairs(mask, shape), TilePlan(mask, shape).pairs());
  }
}

// Blocks of 128 and the last 4 columns of each earlier one.
TEST(PairCount, SupportsVeryLongSequences) {
  const std::int64_t n = 1 << 24;
  const std::int64_t blocks = n / 128;
  const Mask fixed = masks::causal() & (masks::block(128) | masks::columns(128, 124, 4));
  EXPECT_EQ(count_pairs(fixed, {.time = n, .keys = n}),
            blocks * (128 * 129 / 2) + 128 * 4 * (blocks * (blocks - 1) / 2));
}

TEST(PairCount, CachesByMaskAndShape) {
  const Device device = Device::cpu();
  for (int time = 0; time < 2; ++time)
    for (std::int64_t keys = 90; keys < 100; ++keys)
      for (std::int64_t stride = 5; stride < 8; ++stride) {
        const Mask mask = masks::causal() & masks::stride(stride);
        const PlanShape shape{.query_begin = 7, .time = 100, .keys = keys};
        EXPECT_EQ(count_pairs(device.state(), mask, shape), TilePlan(mask, shape).pairs());
      }
}

}  // namespace
}  // namespace longspan::testing::pair_count_test
