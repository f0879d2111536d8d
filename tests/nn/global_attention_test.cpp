// Global positions, windows and random blocks.
#include "framework/nn/attention/global_attention.h"

#include "tests/nn/attention_kinds_testing.h"

namespace longspan {
namespace {

using namespace testing::kinds;

GlobalAttention big_bird(bool causal) {
  return {.positions = {0, 1, 70},
          .left = 6,
          .right = causal ? 0 : 6,
          .random_blocks = 3,
          .block = 5,
          .causal = causal,
          .random = Random(4).child("head")};
}

TEST(GlobalAttention, RandomBlocksAreDistinctAndOutsideOfWindowAndGlobalBlocks) {
  for (const bool causal : {true, false}) {
    const GlobalAttention global = big_bird(causal);
    const std::int64_t positions = 98;  // the last block is short
    const auto lists = random_blocks(global, positions);
    ASSERT_EQ(lists.size(), 20u);
    for (std::int64_t block = 0; block < 20; ++block) {
      const auto& list = lists[static_cast<std::size_t>(block)];
      EXPECT_EQ(std::set<std::int64_t>(list.begin(), list.end()).size(), list.size());
      std::int64_t candidates = 0;
      for (std::int64_t other = 0; other < 20; ++other) {
        const bool touched =
            other * 5 + 4 >= block * 5 - 6 && (causal || other * 5 <= block * 5 + 4 + global.right);
        const bool taken = other == 0 || other == 14;
        if (touched || taken) {
          EXPECT_EQ(std::ranges::count(list, other), 0) << "block " << block;
        }
        candidates += !touched && !taken;
      }
      EXPECT_EQ(std::ssize(list), std::min<std::int64_t>(3, candidates)) << "block " << block;
    }
  }
}

TEST(GlobalAttention, RandomBlocksAreThoseOfTheSeedAndTheHead) {
  const GlobalAttention global = big_bird(true);
  EXPECT_EQ(random_blocks(global, 98), random_blocks(global, 98));
  GlobalAttention other = global;
  other.random = Random(4).child("another head");
  EXPECT_NE(random_blocks(global, 98), random_blocks(other, 98));
  // Every free block is drawn for some head.
  std::set<std::int64_t> drawn;
  for (std::uint64_t head = 0; head < 100; ++head) {
    other.random = Random(4).child(head);
    const auto lists = random_blocks(other, 98);
    drawn.insert(lists[9].begin(), lists[9].end());
  }
  EXPECT_EQ(drawn, (std::set<std::int64_t>{1, 2, 3, 4, 5, 6}));
}

TEST(GlobalAttention, ACausalSequenceHasTheBlocksOfALongerOne) {
  auto longer = random_blocks(big_bird(true), 98);
  longer.resize(12);
  EXPECT_EQ(random_blocks(big_bird(true), 60), longer);
}

TEST(GlobalAttention, HeadsAndLayersHaveTheirOwnBlocksAndEqualDenseAttention) {
  AttentionOptions options = with("global", {.window = {3}});
  options.random = 2;
  options.block = 4;
  options.seed = 5;
  const auto patterns = attention_patterns(options, {.layers = 2, .heads = heads});
  const std::int64_t time = 61;
  const auto lists = [&](std::int64_t layer, std::int64_t head) {
    GlobalAttention global = {.positions = {0}, .left = 3, .random_blocks = 2, .block = 4};
    global.random = Random(5)
                        .child("random_blocks")
                        .child(static_cast<std::uint64_t>(layer))
                        .child(static_cast<std::uint64_t>(head));
    return random_blocks(global, time);
  };
  EXPECT_NE(lists(0, 0), lists(0, 1));
  EXPECT_NE(lists(0, 0), lists(1, 0));
  const Sequence sequence(time);
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    std::vector<std::vector<std::vector<std::int64_t>>> table;
    for (std::int64_t head = 0; head < heads; ++head) table.push_back(lists(layer, head));
    const Sees sees_random = [&](std::int64_t h, std::int64_t p, std::int64_t k) {
      const auto& list = table[static_cast<std::size_t>(h)][static_cast<std::size_t>(p / 4)];
      return std::ranges::count(list, k / 4) > 0;
    };
    expect_same(run(patterns[static_cast<std::size_t>(layer)], sequence),
                dense(sequence,
                      sees::either(sees_random, sees::either(sees::local(3), sees::global({0})))));
  }
}

}  // namespace
}  // namespace longspan
