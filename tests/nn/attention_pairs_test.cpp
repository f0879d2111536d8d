#include <gtest/gtest.h>

#include "framework/nn/attention/kinds.h"

namespace longspan {
namespace {

// Its tiles are a triangle of columns, whose lists no machine would hold.
TEST(AttentionPairs, OfFixedAttentionAreCountedAtAnyLength) {
  const AttentionPattern pattern = attention_patterns(
      {.kinds = {"fixed"}, .stride = 128, .summary = 8}, {.layers = 1, .heads = 4})[0];
  for (const std::int64_t time : {std::int64_t{1} << 21, std::int64_t{1} << 23}) {
    const auto blocks = static_cast<double>(time / 128);
    EXPECT_EQ(attention_pairs(pattern, masks::causal(), time, 0, Device::cpu()),
              blocks * 128 * 129 / 2 + 128 * 8 * blocks * (blocks - 1) / 2);
  }
}

}  // namespace
}  // namespace longspan
