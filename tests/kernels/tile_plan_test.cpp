#include "framework/kernels/attention/tile_plan.h"

#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "tests/kernels/mask_testing.h"

namespace longspan::testing::tile_plan_test {
namespace {

// The expected plan, tile by tile and pair by pair.
struct DenseTiles {
  std::int64_t pairs = 0;
  std::int64_t nearest = 0;
  std::int64_t max_distance = -1;
  std::vector<std::vector<char>> kinds;  // 'n' none, 'p' partial, 'f' full

  DenseTiles(const Mask& mask, const PlanShape& s) {
    for (std::int64_t q = 0; q < s.time; q += 64) {
      kinds.emplace_back();
      for (std::int64_t k = 0; k < s.keys; k += 64) {
        std::int64_t here = 0;
        for (std::int64_t i = q; i < std::min(q + 64, s.time); ++i)
          for (std::int64_t j = k; j < std::min(k + 64, s.keys); ++j) {
            if (!mask.allows(s.query_begin + i, s.key_begin + j)) continue;
            const std::int64_t distance = s.query_begin + i - s.key_begin - j;
            nearest = pairs + here == 0 ? distance : std::min(nearest, distance);
            max_distance = pairs + here == 0 ? distance : std::max(max_distance, distance);
            ++here;
          }
        pairs += here;
        kinds.back().push_back(here == 0 ? 'n' : here == 64 * 64 ? 'f' : 'p');
      }
    }
  }
};

void expect_runs(std::span<const TileRun> runs, const std::vector<char>& kinds) {
  std::vector<char> found(kinds.size(), 'n');
  std::int32_t before = 0;
  for (const TileRun& run : runs) {
    ASSERT_LT(run.begin, run.end);
    ASSERT_GE(run.begin, before);
    before = run.end;
    ASSERT_LE(static_cast<std::size_t>(run.end), kinds.size());
    for (std::int32_t t = run.begin; t < run.end; ++t)
      found[static_cast<std::size_t>(t)] = run.full != 0 ? 'f' : 'p';
  }
  ASSERT_EQ(found, kinds);
}

void expect_plan(const Mask& mask, const PlanShape& shape) {
  const TilePlan plan(mask, shape);
  const DenseTiles expected(mask, shape);
  EXPECT_EQ(plan.pairs(), expected.pairs);
  EXPECT_EQ(plan.nearest(), expected.nearest);
  EXPECT_EQ(plan.max_distance(), expected.max_distance);
  std::int64_t full = 0;
  std::int64_t partial = 0;
  for (const auto& row : expected.kinds)
    for (const char kind : row) {
      full += kind == 'f';
      partial += kind == 'p';
    }
  EXPECT_EQ(plan.full_tiles(), full);
  EXPECT_EQ(plan.partial_tiles(), partial);
  for (std::int64_t q = 0; q < plan.query_tiles(); ++q)
    expect_runs(plan.key_runs(q), expected.kinds[static_cast<std::size_t>(q)]);
  for (std::int64_t k = 0; k < plan.key_tiles(); ++k) {
    std::vector<char> column;
    for (const auto& row : expected.kinds) column.push_back(row[static_cast<std::size_t>(k)]);
    expect_runs(plan.query_runs(k), column);
  }
}

TEST(TilePlan, VisitsExactlyTilesWithAllowedPairs) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    Draws draws(Random(4).child(seed));
    const std::int64_t positions = 1 + draws.pick(500);
    const Mask mask = random_mask(draws, positions);
    const PlanShape shape{.query_begin = draws.one_in(2) ? 0 : draws.pick(200),
                          .time = draws.pick(positions),
                          .key_begin = draws.one_in(2) ? 0 : draws.pick(200),
                          .keys = draws.pick(positions)};
    expect_plan(mask, shape);
  }
}

TEST(TilePlan, CausalPlanOfMillionTokensIsSmall) {
  const std::int64_t n = 1 << 20;
  const TilePlan plan(masks::causal(), {.time = n, .keys = n});
  EXPECT_EQ(plan.pairs(), n * (n + 1) / 2);
  EXPECT_EQ(plan.partial_tiles(), n / 64);
  EXPECT_EQ(plan.full_tiles(), n / 64 * (n / 64 - 1) / 2);
  EXPECT_EQ(plan.runs(), 2 * n / 64 - 1);
  EXPECT_EQ(plan.query_runs(0).size(), 2u);
  EXPECT_EQ(plan.query_runs(n / 64 - 1).size(), 1u);
}

TEST(TilePlan, WindowPlanOfMillionTokensListsOnlyItsTiles) {
  const std::int64_t n = 1 << 20;
  const TilePlan plan(masks::causal() & masks::window(255, 0), {.time = n, .keys = n});
  EXPECT_EQ(plan.pairs(), 256 * n - 256 * 255 / 2);
  EXPECT_LE(plan.runs(), 3 * n / 64);
  EXPECT_EQ(plan.max_distance(), 255);
}

// The columns are not adjacent: every tile is a separate run.
TEST(TilePlan, RejectsTooLargePlanAndNamesKey) {
  const Mask mask = masks::causal() & masks::columns(128, 96, 32);
  const PlanShape shape{.time = 1 << 14, .keys = 1 << 14};
  const TilePlan plan(mask, shape);
  EXPECT_EQ(plan.runs(), 128 * 128);
  EXPECT_GE(plan.bytes(), plan.runs() * 16);
  EXPECT_NO_THROW(TilePlan(mask, shape, plan.runs() * 32));
  try {
    const TilePlan large(mask, shape, plan.runs() * 32 - 1);
    FAIL();
  } catch (const ConfigurationError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("model.attention.layer_types:"), std::string::npos) << message;
    EXPECT_NE(message.find("model.attention.stride"), std::string::npos) << message;
  }
}

TEST(TilePlan, CachesPlanOfEveryHead) {
  const Device device = Device::cpu();
  std::vector<std::shared_ptr<const TilePlan>> plans;
  const auto plan_of = [&](std::int64_t head) {
    return tile_plan(device.state(),
                     masks::causal() & masks::keys_at({head, 3 * head}),
                     {.query_begin = head % 7, .time = 200, .keys = 200});
  };
  for (std::int64_t head = 0; head < 2000; ++head) plans.push_back(plan_of(head));
  for (std::int64_t head = 0; head < 2000; ++head)
    ASSERT_EQ(plan_of(head), plans[static_cast<std::size_t>(head)]) << head;
}

TEST(TilePlan, RejectsMoreTilesThanRunsCanNumber) {
  constexpr std::int64_t most = ((std::int64_t{1} << 30) - 1) * attention_tile;
  const TilePlan longest(masks::everything(), {.time = 1, .keys = most});
  EXPECT_EQ(longest.key_runs(0).back().end, longest.key_tiles());
  EXPECT_THROW(TilePlan(masks::everything(), {.time = 1, .keys = most + 1}), ConfigurationError);
  EXPECT_THROW(TilePlan(masks::nothing(), {.time = most + 1, .keys = 1}), ConfigurationError);
}

TEST(TilePlan, CachesByMaskAndShape) {
  const Device device = Device::cpu();
  const PlanShape shape{.time = 100, .keys = 100};
  const auto first = tile_plan(device.state(), masks::causal() & masks::stride(5), shape);
  EXPECT_EQ(tile_plan(device.state(), masks::causal() & masks::stride(5), shape), first);
  EXPECT_NE(tile_plan(device.state(), masks::causal() & masks::stride(6), shape), first);
  EXPECT_NE(tile_plan(device.state(),
                      masks::causal() & masks::stride(5),
                      {.query_begin = 1, .time = 100, .keys = 100}),
            first);
}

}  // namespace
}  // namespace longspan::testing::tile_plan_test
