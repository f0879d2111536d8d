// The dtypes and head widths that GPU matrix units support, with all processing of scores between
// the products.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string_view>

#include "tests/kernels/attention_dense.h"
#ifdef LONGSPAN_EMULATED_CUDA
#include "framework/kernels/attention/cuda/matrix_calls.h"
#include "framework/kernels/attention/cuda/pair_ranges.h"
#include "tests/support/ptx/counts.h"
#endif

namespace longspan::testing::attention_widths_test {
namespace {

HeadMasks with_gaps() { return masks::stride(150) | masks::window(5, 0); }
HeadMasks by_head() {
  const Mask local = masks::window(20, 0);
  return HeadMasks({Mask(), local, local});
}

// Each case has several tiles of queries or keys, and ends within a tile.
const std::vector<AttentionCase>& cases() {
  static const std::vector<AttentionCase> all = {
      {.time = 70, .keys = 140},
      {.batch = 2, .time = 67, .keys = 60, .heads = 2, .causal = false, .padded = true},
      {.time = 130, .keys = 130, .window = 40, .slopes = true},
      {.time = 66, .keys = 129, .causal = false, .dropout = 0.3},
      {.time = 64, .keys = 132, .causal = false, .dropout = 0.3},
      {.time = 66, .keys = 70, .heads = 6, .dropout = 0.3, .fold = 3},
      {.time = 70, .keys = 70, .sorted = true, .buckets = true, .hash = 1},
      {.time = 75, .keys = 100, .sorted = true, .hash = 3, .dropout = 0.2},
      {.time = 65, .keys = 65, .causal = true, .padded = true, .hash = 1},
      {.time = 128, .keys = 192, .causal = false},
      {.time = 70, .keys = 140, .heads = 2, .relative = true},
      {.time = 130, .keys = 130, .window = 70, .relative = true, .dropout = 0.2},
      {.time = 67, .keys = 100, .causal = false, .key_table = true, .value_table = true},
      {.time = 66, .keys = 70, .relative = true, .span = 2},
      // Full diagonals of tiles without an allowed pair.
      {.time = 270, .keys = 270, .relative = true, .rules = HeadMasks(masks::stride(256))},
      {.batch = 2, .time = 65, .keys = 65, .relative = true, .slopes = true, .span = 1},
      {.time = 65, .keys = 65, .value_table = true, .span = 1, .dropout = 0.2},
      {.time = 66, .keys = 130, .padded = true, .key_table = true, .slopes = true, .span = 2},
      // The next tile is not adjacent, in queries and in keys.
      {.time = 200, .keys = 200, .key_table = true, .value_table = true, .rules = with_gaps()},
      {.time = 200, .keys = 200, .relative = true, .rules = with_gaps()},
      // Heads of several plans. Those of the second plan also have their own tables.
      {.batch = 2, .time = 70, .keys = 70, .heads = 3, .relative = true, .rules = by_head()},
      {.time = 70,
       .keys = 100,
       .heads = 3,
       .key_table = true,
       .value_table = true,
       .rules = by_head(),
       .dropout = 0.2},
      // Terms without a table, and masks of sorted sequences without a term.
      {.time = 66, .keys = 70, .slopes = true, .span = 2},
      {.time = 70, .keys = 100, .sorted = true, .hash = 2},
      {.time = 70, .keys = 130, .padded = true, .sorted = true, .buckets = true},
      // Terms on tiles whose pairs are all allowed.
      {.time = 130, .keys = 130, .slopes = true, .span = 1},
      {.time = 128, .keys = 131, .causal = false, .hash = 1, .dropout = 0.3},
      // A distance bias has no specialized kernels except for its gradient.
      {.time = 130, .keys = 130, .heads = 2, .bias = true},
      {.batch = 2, .time = 66, .keys = 140, .causal = false, .padded = true, .bias = true},
      {.time = 70, .keys = 100, .heads = 3, .bias = true, .rules = by_head(), .dropout = 0.2},
      {.time = 130, .keys = 130, .bias = true, .span = 1},
      // Keys at the outer end of the ramp and beyond.
      {.time = 130, .keys = 130, .span = 1, .ramp = 4},
      {.time = 130, .keys = 150, .span = 2, .ramp = 4, .dropout = 0.2},
      {.time = 130, .keys = 140, .span = 2, .ramp = 4, .floor = false},
  };
  return all;
}

#ifdef LONGSPAN_EMULATED_CUDA
bool uses_tensor_cores(const AttentionGradient& g) {
  return with_floating_type(g.dout.dtype(), [&]<typename In>(TypeTag<In>) {
    return tile_attention::uses_tensor_cores(tile_attention::AttentionCall<In>(g.forward),
                                             {g.dout.bytes(), g.dquery.bytes()});
  });
}
bool uses_two_tiles(const AttentionGradient& g) {
  return with_floating_type(g.dout.dtype(), [&]<typename In>(TypeTag<In>) {
    const tile_attention::AttentionCall<In> call(g.forward);
    for (const auto& group : tile_attention::head_groups(g.forward))
      if (const PlanView plan = plan_view(backend(), group.plan, false);
          !tile_attention::uses_two_tiles<In>(backend(), {call, plan, group.begin, group.count}))
        return false;
    return true;
  });
}

TEST(AttentionWidths, MatrixUnitsSupportNarrowDTypesAtSomeWidths) {
  const auto takes = [](std::int64_t dim, std::int64_t value_dim, DType dtype) {
    return uses_tensor_cores(make_attention(
        {.time = 3, .keys = 3, .dim = dim, .value_dim = value_dim, .dtype = dtype}, Device::cpu()));
  };
  for (const std::int64_t dim : {32, 64, 96, 128}) {
    EXPECT_TRUE(takes(dim, dim, DType::bf16));
    EXPECT_TRUE(takes(dim, dim, DType::f16));
    EXPECT_FALSE(takes(dim, dim, DType::f32));
    EXPECT_FALSE(takes(dim, 160 - dim, DType::bf16));
  }
  EXPECT_FALSE(takes(40, 40, DType::bf16));
  EXPECT_FALSE(takes(160, 160, DType::bf16));
}
#endif

#ifdef LONGSPAN_CUDA_KERNELS
TEST(AttentionWidths, WarpGroupsSupportWidths64And128WithoutTables) {
  const char* const value = std::getenv("LONGSPAN_HOPPER_WGMMA");
  const bool asked_for = value != nullptr && std::string_view(value) == "1";
  const auto takes = [](AttentionCase c, std::int64_t dim) {
    c.dim = c.value_dim = dim;
    c.dtype = DType::bf16;
    return attends_by_warp_groups(backend(), make_attention(c, Device::cpu()).forward);
  };
  for (const std::int64_t dim : {32, 64, 96, 128}) {
    EXPECT_EQ(takes({.time = 3, .keys = 3}, dim), asked_for && dim % 64 == 0);
    EXPECT_FALSE(takes({.time = 3, .keys = 3, .relative = true}, dim));
    EXPECT_FALSE(takes({.time = 3, .keys = 3, .value_table = true}, dim));
  }
}
#endif

AttentionGradient expect_dense(AttentionCase c,
                               std::int64_t width,
                               DType dtype,
                               std::uint64_t seed) {
  c.dim = c.value_dim = width;
  c.dtype = dtype;
  c.seed = seed;
  c.spread = 0.5;
  const Device device = fresh_device();
  const AttentionGradient g = make_attention(c, device);
#ifdef LONGSPAN_EMULATED_CUDA
  EXPECT_TRUE(uses_tensor_cores(g));
#endif
  const AttentionResult found = run_attention(g);
  expect_close(found, dense_attention(g), dtype == DType::bf16 ? 2e-2 : 4e-3, c.to_string());
  return g;
}

// Split into parts, which the test shards of the emulated device divide.
class AttentionWidthsTest : public ::testing::TestWithParam<std::uint64_t> {};
constexpr std::uint64_t parts = 4;
INSTANTIATE_TEST_SUITE_P(Part, AttentionWidthsTest, ::testing::Range(std::uint64_t{0}, parts));

// Calls with specialized kernels, with and without terms, and calls that warp groups support.
// Emulated kernels test dtypes and widths in turn.
TEST(AttentionWidths, Widths64And128WithoutTablesEqualDense) {
  std::uint64_t seed = 0;
  for (const AttentionCase& c : cases()) {
    if (c.relative || c.key_table || c.value_table) continue;
    const std::uint64_t turn = seed / 4 % 4;
    for (const std::int64_t width : {64, 128})
      for (const DType dtype : {DType::bf16, DType::f16})
        if (seed++; !slow || (seed - 1) % 4 == turn) expect_dense(c, width, dtype, seed);
  }
}

TEST_P(AttentionWidthsTest, EqualsDenseInNarrowDTypes) {
  const std::int64_t widths[] = {32, 64, 96, 128};
  std::uint64_t seed = 0, index = 0;
  for (const AttentionCase& c : cases()) {
    const bool is_mine = index++ % parts == GetParam();
    for (const std::int64_t width : widths)
      for (const DType dtype : {DType::bf16, DType::f16}) {
        ++seed;
        // One width of each case and one dtype of each width, in turns.
        const std::uint64_t turn = (seed - 1) / 8 % 4 * 2 + (seed - 1) / 32 % 2;
        if (!is_mine || (slow && (seed - 1) % 8 != turn)) continue;
        expect_dense(c, width, dtype, seed);
      }
  }
}

// Score gradients are saved for all pairs of batch row and head, for some at a time, or recomputed.
TEST(AttentionWidths, SavedScoreGradientsOfSomePairsEqualDense) {
  AttentionCase c = {.batch = 2, .time = 66, .keys = 70, .heads = 3, .relative = true};
  const std::int64_t widths[] = {32, 64, 96, 128};
  std::uint64_t seed = 0;
  for (const char* const most : {"0", "1", "2", "3"}) {
    ++seed;
    ::setenv("LONGSPAN_MAX_SAVED_PAIRS", most, 1);
#ifdef LONGSPAN_EMULATED_CUDA
    const ptx::Counting counting;
#endif
    const AttentionGradient g = expect_dense(c, widths[seed - 1], DType::bf16, seed);
#ifdef LONGSPAN_EMULATED_CUDA
    const auto group = tile_attention::head_groups(g.forward)[0];
    const tile_attention::AttentionCall<BFloat16> call(g.forward);
    EXPECT_EQ(max_pairs(saved_ranges(call, group)), *most - '0');
    const bool any_compiled = !counting.kernels.empty();
    for (const std::string_view kernel : {"multiply_kept_by_keys", "sum_kept_diagonals"}) {
      const bool has_run = std::ranges::any_of(counting.kernels, [&](const auto& ran) {
        return ran.first.find(kernel) != std::string::npos;
      });
      EXPECT_EQ(has_run, any_compiled && *most != '0') << kernel;
    }
#endif
    c.dropout = 0.2;  // the kernel for any terms saves this too, in two parts of columns
  }
  c.rules = by_head();
  expect_dense(c, 64, DType::bf16, ++seed);
  ::unsetenv("LONGSPAN_MAX_SAVED_PAIRS");
}

#ifdef LONGSPAN_EMULATED_CUDA
TEST(AttentionWidths, PairRangesCoverEachPairOnceWithinLimit) {
  for (const std::int64_t heads : {0, 1, 5})
    for (const std::int64_t rows : {0, 1, 4})
      for (const std::int64_t most : {0, 1, 2, 4, 7, 13, 20, 100}) {
        std::map<std::pair<std::int64_t, std::int64_t>, int> times;
        for (const auto& range : tile_attention::pair_ranges(3, heads, rows, most)) {
          EXPECT_LE(range.heads * range.rows, std::max<std::int64_t>(most, 1));
          for (std::int64_t h = 0; h < range.heads; ++h)
            for (std::int64_t b = 0; b < range.rows; ++b)
              ++times[{range.head_begin + h - 3, range.row_begin + b}];
        }
        EXPECT_EQ(std::ssize(times), heads * rows);
        for (const auto& [pair, count] : times) {
          EXPECT_EQ(count, 1);
          EXPECT_TRUE(pair.first >= 0 && pair.first < heads);
          EXPECT_TRUE(pair.second >= 0 && pair.second < rows);
        }
      }
}

// Half a GiB holds four pairs of 16,384 tiles each, with enough blocks if keys have 128 tiles.
TEST(AttentionWidths, SavesScoreGradientsWithinMemoryLimit) {
  const auto kept = [](AttentionCase c, std::int64_t rows) {
    c.causal = false;
    c.dim = c.value_dim = 32;
    const AttentionGradient g = make_attention(c, Device::cpu());
    const auto group = tile_attention::head_groups(g.forward)[0];
    return with_floating_type(c.dtype, [&]<typename In>(TypeTag<In>) {
      tile_attention::AttentionCall<In> call(g.forward);
      call.batch = rows;
      return max_pairs(saved_ranges(call, group));
    });
  };
  const AttentionCase large = {
      .time = 128 * 64, .keys = 128 * 64, .relative = true, .dtype = DType::bf16};
  EXPECT_EQ(kept(large, 3), 3);
  EXPECT_EQ(kept(large, 100), 4);
  EXPECT_EQ(kept(large, 5), 0);  // two and three: too few blocks
  AttentionCase other = large;
  other.keys = 127 * 64;
  EXPECT_EQ(kept(other, 100), 0);
  EXPECT_EQ(kept(other, 4), 4);
  other = large;
  other.dtype = DType::f16;
  EXPECT_EQ(kept(other, 1), 0);
  other = large;
  other.span = 1;
  EXPECT_EQ(kept(other, 1), 0);
  other = large;
  other.relative = false;
  EXPECT_EQ(kept(other, 1), 0);

  // Values of the environment variable, up to the memory limit.
  for (const auto& [asked, expected] :
       {std::pair("1000", 4), {"3", 3}, {"0", 0}, {"9223372036854775807", 4}}) {
    ::setenv("LONGSPAN_MAX_SAVED_PAIRS", asked, 1);
    EXPECT_EQ(kept(large, 100), expected) << asked;
  }
  for (const char* const asked : {"", "all", "-1", "1e3", " 1", "9223372036854775808"}) {
    ::setenv("LONGSPAN_MAX_SAVED_PAIRS", asked, 1);
    EXPECT_THROW(kept(large, 1), Failure) << asked;
  }
  ::unsetenv("LONGSPAN_MAX_SAVED_PAIRS");
}
#endif

// Enough heads to give all multiprocessors of a GPU blocks of two query tiles.
#if defined(LONGSPAN_CUDA_KERNELS) && !defined(LONGSPAN_EMULATED_CUDA)
constexpr std::int64_t enough_heads = 160;
#else
constexpr std::int64_t enough_heads = 1;
#endif

// Neighboring query tiles that share key tiles: an odd number of tiles, masks that give one of two
// tiles more key tiles or none, and padding.
std::vector<AttentionCase> neighboring_tiles() {
  const AttentionCase sizes = {.time = 130, .keys = 130, .heads = enough_heads};
  std::vector<AttentionCase> all(9, sizes);
  all[0].keys = 190;
  all[1].padded = true;
  all[1].causal = false;
  all[2].time = all[2].keys = 200;
  all[2].rules = with_gaps();
  all[3].time = all[3].keys = 200;
  all[3].window = 20;
  all[4].query_begin = 0;  // the first tile has no keys
  all[4].time = 200;
  all[4].keys = 66;
  all[4].key_begin = 64;
  all[5].query_begin = 0;  // the last of four tiles has no keys
  all[5].time = 200;
  all[5].keys = 40;
  all[5].window = 150;
  all[6].sorted = true;
  // Pairs skip one key tile, or two.
  all[7].time = all[7].keys = 330;
  all[7].rules = HeadMasks(masks::stride(250) | masks::window(5, 0));
  all[8].time = all[8].keys = 400;
  all[8].rules = HeadMasks(masks::stride(320) | masks::window(70, 0));
  return all;
}

void expect_dense_in_turns(const AttentionCase& c,
                           std::initializer_list<std::int64_t> widths,
                           std::uint64_t& seed) {
  for (const std::int64_t width : widths)
    for (const DType dtype : {DType::bf16, DType::f16}) {
      // Slow builds test one combination of each case. A GPU tests every second one.
      const std::uint64_t all = 2 * widths.size(), of = slow ? all : enough_heads > 1 ? 2 : 1;
      const std::uint64_t turn = seed / all % of;
      if (seed++ % of != turn) continue;
#ifdef LONGSPAN_EMULATED_CUDA
      const ptx::Counting counting;
#endif
      const AttentionGradient g = expect_dense(c, width, dtype, seed);
#ifdef LONGSPAN_EMULATED_CUDA
      EXPECT_TRUE(uses_two_tiles(g));
      // A kernel's mangled name contains its numbers of terms and tiles: ELi2EEEv has two tiles.
      const bool any_compiled = !counting.kernels.empty();
      const bool by_two = std::ranges::any_of(counting.kernels, [](const auto& kernel) {
        return kernel.first.find("attend_matrices") != std::string::npos &&
               kernel.first.find("ELi2EEEv") != std::string::npos;
      });
      EXPECT_EQ(by_two, any_compiled) << c.to_string();
#endif
    }
}

TEST(AttentionWidths, NeighboringQueryTilesEqualDense) {
  std::uint64_t seed = 0;
  for (const AttentionCase& c : neighboring_tiles()) expect_dense_in_turns(c, {64, 128}, seed);
}

// With relative terms, the warps of two tiles read different rows and one more half of the table.
TEST(AttentionWidths, NeighboringQueryTilesWithDistancesEqualDense) {
  std::uint64_t seed = 0;
  for (AttentionCase c : neighboring_tiles()) {
    if (c.sorted) continue;
    for (const bool relative : {true, false}) {
      if (relative && !c.causal) continue;
      c.relative = relative;
      c.key_table = !relative;
      expect_dense_in_turns(c, {64}, seed);
    }
  }
}

// A row without keys in a tile whose other rows have keys.
TEST(AttentionWidths, RowsWithoutAKeyAreZeroNextToOthers) {
  AttentionCase c = {.time = 70, .keys = 70, .dim = 64, .value_dim = 64, .dtype = DType::bf16};
  c.rules = HeadMasks(masks::window(masks::unlimited, -1));
  const Device device = fresh_device();
  const AttentionResult r = run_attention(make_attention(c, device));
  EXPECT_EQ(r.log_sum_exp[0], -std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(r.out[i], 0);
    EXPECT_EQ(r.dquery[i], 0);
  }
  for (std::size_t i = 0; i < r.out.size(); ++i) EXPECT_TRUE(std::isfinite(r.out[i]));
}

void expect_added_to_wider(const AttentionCase& c) {
  const Device device = fresh_device();
  AttentionGradient g = make_attention(c, device);
  const AttentionResult rounded = run_attention(g);
  g.add = true;
  for (Tensor* gradient : {&g.dquery, &g.dkey, &g.dvalue})
    *gradient = filled(gradient->shape(), DType::f32, 1, device);
  attend_backward(g);
  const auto expect_added = [](const Tensor& found, const Numbers& expected) {
    const Numbers sums = numbers(found);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(sums[i] - 1, expected[i], 5e-3 * std::abs(expected[i]) + 1e-6);
  };
  expect_added(g.dquery, rounded.dquery);
  expect_added(g.dkey, rounded.dkey);
  expect_added(g.dvalue, rounded.dvalue);
}

// Blocks of one query tile, and of two.
TEST(AttentionWidths, GradientsAreAddedToWiderSums) {
  AttentionCase c = {
      .time = 65, .keys = 65, .dim = 32, .value_dim = 32, .dtype = DType::bf16, .spread = 0.5};
  expect_added_to_wider(c);
  c.time = c.keys = 130;
  c.dim = c.value_dim = 64;
  c.heads = enough_heads;
  expect_added_to_wider(c);
}

}  // namespace
}  // namespace longspan::testing::attention_widths_test
