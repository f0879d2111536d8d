#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "framework/nn/attention/attention_kinds.h"

namespace longspan::attention_pairs_test {
namespace {

// The tiles form a triangle of columns, whose lists would not fit in memory.
TEST(AttentionPairs, CountsFixedAttentionAtAnyLength) {
  const AttentionPattern pattern = attention_patterns(
      {.kinds = {"fixed"}, .stride = 128, .summary = 8}, {.layers = 1, .heads = 4})[0];
  for (const std::int64_t time : {std::int64_t{1} << 21, std::int64_t{1} << 23}) {
    const auto blocks = static_cast<double>(time / 128);
    EXPECT_EQ(attention_pairs(pattern, masks::causal(), time, 0, Device::cpu()),
              blocks * 128 * 129 / 2 + 128 * 8 * blocks * (blocks - 1) / 2);
  }
}

// Concurrent calls with different lengths, as from a training step and a plan.
TEST(AttentionPattern, SupportsConcurrentCalls) {
  const AttentionPattern pattern(
      [](std::int64_t positions) {
        return std::vector<HeadMaskParts>(8,
                                          {.rules = masks::window(positions, 0), .near = Mask()});
      },
      1);
  std::atomic<int> wrong = 0;
  const auto ask = [&](std::int64_t positions) {
    for (int i = 0; i < 2000; ++i)
      if (!(pattern.rules(positions).of(0) == masks::window(positions, 0))) ++wrong;
  };
  std::thread other(ask, 10);
  ask(20);
  other.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace longspan::attention_pairs_test
