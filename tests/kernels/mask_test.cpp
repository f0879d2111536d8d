#include "framework/kernels/attention/mask.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "framework/core/error.h"
#include "framework/kernels/attention/mask_tiles.h"
#include "framework/kernels/attention/shared/mask_rules.h"
#include "tests/kernels/mask_testing.h"

namespace longspan::testing::mask_test {
namespace {

using Pair = std::function<bool(std::int64_t, std::int64_t)>;

void expect_mask(const Mask& mask, std::int64_t n, const Pair& allowed) {
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      ASSERT_EQ(mask.allows(i, j), allowed(i, j)) << "query " << i << " key " << j;
}

std::set<std::int64_t> keys_of(const Mask& mask, std::int64_t query, std::int64_t n) {
  std::set<std::int64_t> keys;
  for (std::int64_t j = 0; j < n; ++j)
    if (mask.allows(query, j)) keys.insert(j);
  return keys;
}

TEST(Mask, WindowCoversBothSidesOfQuery) {
  for (const std::int64_t left : {0, 1, 5})
    for (const std::int64_t right : {-1, 0, 3})
      expect_mask(masks::window(left, right), 20, [&](std::int64_t i, std::int64_t j) {
        return i - left <= j && j <= i + right;
      });
}

TEST(Mask, DilatedWindowSkipsKeys) {
  const std::int64_t w = 3;
  const std::int64_t s = 2;
  expect_mask(
      masks::stride(s) & masks::window(w * s, w * s), 24, [&](std::int64_t i, std::int64_t j) {
        return (i - j) % s == 0 && std::abs(i - j) <= w * s;
      });
}

// Child et al. 2019: A1 = {i-l < j <= i}, A2 = {(i-j) mod l = 0}.
TEST(Mask, StridedAndFixedMatchPaper) {
  const std::int64_t l = 4;
  const Mask strided = masks::causal() & (masks::window(l - 1, 0) | masks::stride(l));
  EXPECT_EQ(keys_of(strided, 15, 16), (std::set<std::int64_t>{12, 13, 14, 15, 3, 7, 11}));
  const Mask fixed = masks::causal() & (masks::block(l) | masks::columns(l, l - 1, 1));
  EXPECT_EQ(keys_of(fixed, 13, 16), (std::set<std::int64_t>{12, 13, 3, 7, 11}));
  EXPECT_EQ(keys_of(fixed, 0, 16), (std::set<std::int64_t>{0}));
}

TEST(Mask, TrivialRulesAllowEverythingOrNothing) {
  expect_mask(masks::stride(1), 12, [](auto, auto) { return true; });
  expect_mask(masks::window(12, 12), 12, [](auto, auto) { return true; });
  expect_mask(masks::block(12), 12, [](auto, auto) { return true; });
  expect_mask(masks::nothing(), 12, [](auto, auto) { return false; });
  expect_mask(masks::everything() & masks::nothing(), 12, [](auto, auto) { return false; });
  expect_mask(masks::everything() | masks::nothing(), 12, [](auto, auto) { return true; });
}

// The Image Transformer's 1-D blocks: the block of the query and the positions before it.
TEST(Mask, BlocksAttendToPrecedingPositions) {
  const std::int64_t l = 5;
  const std::int64_t memory = 7;
  expect_mask(masks::causal() & masks::block(l, memory), 33, [&](std::int64_t i, std::int64_t j) {
    const std::int64_t block = i / l * l;
    return j >= block - memory && j < block + l && j <= i;
  });
}

TEST(Mask, GlobalPositionsAttendBothWays) {
  const Mask mask = masks::global({9, 2, 9}) | masks::window(1, 1);
  expect_mask(mask, 12, [](std::int64_t i, std::int64_t j) {
    const auto global = [](std::int64_t p) { return p == 2 || p == 9; };
    return global(i) || global(j) || std::abs(i - j) <= 1;
  });
  expect_mask(masks::keys_at({2}), 6, [](std::int64_t, std::int64_t j) { return j == 2; });
  expect_mask(masks::queries_at({2}), 6, [](std::int64_t i, std::int64_t) { return i == 2; });
  expect_mask(masks::queries_except({2}), 6, [](std::int64_t i, std::int64_t) { return i != 2; });
}

TEST(Mask, BlockMapAllowsListedKeyBlocks) {
  const Mask mask = masks::block_map(3, {{0}, {2, 0}, {}, {1, 3, 1}});
  const std::set<std::pair<std::int64_t, std::int64_t>> blocks = {
      {0, 0}, {1, 0}, {1, 2}, {3, 1}, {3, 3}};
  expect_mask(mask, 15, [&](std::int64_t i, std::int64_t j) {
    return blocks.contains({i / 3, j / 3});
  });
}

// Pixel by pixel, from the definition of the generation order.
Pair image_oracle(const masks::Image& image, masks::ImageOrder order) {
  struct Place {
    std::int64_t row, column;
  };
  std::vector<Place> places;
  if (order == masks::ImageOrder::raster) {
    for (std::int64_t y = 0; y < image.height; ++y)
      for (std::int64_t x = 0; x < image.width; ++x) places.push_back({y, x});
  } else {
    for (std::int64_t top = 0; top < image.height; top += image.query_height)
      for (std::int64_t left = 0; left < image.width; left += image.query_width)
        for (std::int64_t y = top; y < std::min(top + image.query_height, image.height); ++y)
          for (std::int64_t x = left; x < std::min(left + image.query_width, image.width); ++x)
            places.push_back({y, x});
  }
  return [=](std::int64_t i, std::int64_t j) {
    const Place q = places.at(static_cast<std::size_t>(i));
    const Place k = places.at(static_cast<std::size_t>(j));
    const std::int64_t top = q.row - q.row % image.query_height;
    const std::int64_t left = q.column - q.column % image.query_width;
    const bool in_rows = k.row >= top && k.row < top + image.query_height;
    const bool in_columns = k.column >= left && k.column < left + image.query_width;
    const bool in_wide = k.column >= left - image.flange_width &&
                         k.column < left + image.query_width + image.flange_width;
    if (in_rows && in_columns)
      return !image.causal || std::pair(k.row, k.column) <= std::pair(q.row, q.column);
    const bool above = k.row < top && k.row >= top - image.flange_height;
    const bool below =
        k.row >= top + image.query_height && k.row < top + image.query_height + image.flange_height;
    if (image.causal) return in_wide && (above || (in_rows && k.column < left));
    return in_wide && (above || below || in_rows);
  };
}

TEST(Mask, ImageBlocksAttendToFlange) {
  for (const bool causal : {true, false})
    for (const auto order : {masks::ImageOrder::raster, masks::ImageOrder::generation})
      for (const masks::Image image : {masks::Image{8, 8, 4, 4, 2, 2, causal},
                                       masks::Image{4, 6, 2, 3, 1, 2, causal},
                                       masks::Image{6, 6, 2, 2, 3, 5, causal},
                                       masks::Image{5, 7, 5, 7, 1, 1, causal},
                                       // Blocks that do not divide the height, the width, or both.
                                       masks::Image{7, 8, 4, 4, 2, 2, causal},
                                       masks::Image{8, 7, 4, 3, 1, 4, causal},
                                       masks::Image{7, 11, 3, 4, 2, 3, causal},
                                       masks::Image{3, 5, 8, 9, 2, 2, causal}})
        expect_mask(
            masks::image(image, order), image.height * image.width, image_oracle(image, order));
}

TEST(Mask, GenerationOrderIsCausal) {
  for (const masks::Image image :
       {masks::Image{8, 12, 2, 4, 3, 6, true}, masks::Image{7, 11, 3, 4, 3, 6, true}}) {
    const Mask mask = masks::image(image, masks::ImageOrder::generation);
    const std::int64_t pixels = image.height * image.width;
    for (std::int64_t i = 0; i < pixels; ++i) {
      EXPECT_TRUE(mask.allows(i, i));
      for (std::int64_t j = i + 1; j < pixels; ++j)
        EXPECT_FALSE(mask.allows(i, j)) << i << " " << j;
    }
  }
}

TEST(Mask, SingleImageBlockIsCausal) {
  for (const auto order : {masks::ImageOrder::raster, masks::ImageOrder::generation})
    expect_mask(masks::image({4, 5, 4, 5, 2, 2, true}, order),
                20,
                [](std::int64_t i, std::int64_t j) { return j <= i; });
}

TEST(Mask, EqualRulesCompareAndHashEqual) {
  EXPECT_EQ(masks::causal() & masks::stride(3), masks::causal() & masks::stride(3));
  EXPECT_EQ(masks::keys_at({3, 1}), masks::keys_at({1, 3, 3}));
  EXPECT_EQ((masks::keys_at({3, 1}) | masks::self()).hash(),
            (masks::keys_at({1, 3}) | masks::self()).hash());
  EXPECT_FALSE(masks::stride(3) == masks::stride(4));
  EXPECT_FALSE(masks::stride(3) == masks::block(3));
  EXPECT_EQ(masks::causal() & masks::causal(), masks::causal());
}

TEST(Mask, RejectsInvalidRules) {
  EXPECT_THROW(masks::stride(0), Failure);
  EXPECT_THROW(masks::block(0), Failure);
  EXPECT_THROW(masks::columns(4, 3, 2), Failure);
  try {
    masks::image({8, 10, 4, 0, 1, 1, true}, masks::ImageOrder::raster);
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(),
                 "mask: expected image and block sizes of at least 1, found 8 x 10 "
                 "in blocks of 4 x 0");
  }
}

TEST(Mask, TileBitsMatchDefinition) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Draws draws(Random(3).child(seed));
    const std::int64_t positions = 1 + draws.pick(400);
    const Mask mask = random_mask(draws, positions);
    const std::int64_t first_query = draws.pick(positions);
    const std::int64_t first_key = draws.pick(positions);
    const std::int64_t rows = 1 + draws.pick(63);
    std::uint64_t bits[64];
    allowed_bits(mask, first_query, rows, first_key, bits);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t j = 0; j < 64; ++j)
        ASSERT_EQ(bits[r] >> j & 1, mask.allows(first_query + r, first_key + j) ? 1u : 0u)
            << "seed " << seed << " query " << first_query + r << " key " << first_key + j;
  }
}

// The bits of a partial tile as kernels compute them, rule by rule and half a row at a time.
TEST(Mask, RuleWordsMatchDefinition) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Draws draws(Random(4).child(seed));
    const std::int64_t positions = 1 + draws.pick(400);
    const Mask mask = random_mask(draws, positions);
    const std::int64_t query = draws.pick(positions), key = draws.pick(positions);
    std::vector<RuleView> rules;
    std::vector<std::int64_t> ends;
    for (const auto& alternative : mask.alternatives()) {
      for (const MaskRule& rule : alternative) rules.push_back(view_of(rule));
      ends.push_back(std::ssize(rules));
    }
    const MaskView view = {rules.data(), ends.data(), std::ssize(ends)};
    const std::uint32_t word = view.word(query, key);
    for (std::int64_t j = 0; j < 32; ++j)
      ASSERT_EQ(word >> j & 1, mask.allows(query, key + j) ? 1u : 0u)
          << "seed " << seed << " query " << query << " key " << key + j;
  }
}

}  // namespace
}  // namespace longspan::testing::mask_test
