#include "framework/core/random.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace longspan::random_test {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Reference: Philox4x32-10 as in Salmon et al. 2011.
Words philox(Words c, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<std::uint32_t>(product1 >> 32) ^ c[1] ^ key[0],
         static_cast<std::uint32_t>(product1),
         static_cast<std::uint32_t>(product0 >> 32) ^ c[3] ^ key[1],
         static_cast<std::uint32_t>(product0)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return c;
}

TEST(Random, ReferenceMatchesPublishedVectors) {
  constexpr std::uint32_t all = 0xffffffffu;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(philox({all, all, all, all}, {all, all}),
            (Words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(
      philox({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
      (Words{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(Random, ZeroSeedAndIndexMatchFirstVector) {
  EXPECT_EQ(Random(0).block(0), (Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
}

TEST(Random, BlockEqualsPhiloxForIndexPathAndSeed) {
  const std::uint64_t seed = 0x299f31d0a4093822u;
  const Random random = Random(seed).child("layer").child(3);
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  for (const std::uint64_t index :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{0x85a308d3243f6a88u}})
    EXPECT_EQ(random.block(index),
              philox({low(index), high(index), low(random.place()), high(random.place())},
                     {low(seed), high(seed)}));
}

TEST(Random, ElementEqualsWordInBlock) {
  const Random random = Random(11).child(2);
  for (std::uint64_t element = 0; element < 20; ++element) {
    EXPECT_EQ(random.word(element), random.block(element / 4)[element % 4]);
    EXPECT_EQ(random.uniform_at(element), Random::uniform(random.word(element)));
  }
}

TEST(Random, UniformIncludesZeroAndExcludesOne) {
  EXPECT_EQ(Random::uniform(0), 0.0f);
  EXPECT_EQ(Random::uniform(0xff), 0.0f);
  EXPECT_EQ(Random::uniform(0x100), 0x1p-24f);
  EXPECT_EQ(Random::uniform(0xffffffffu), 1 - 0x1p-24f);
}

TEST(Random, DistinctPathsAndSeedsGiveDistinctStreams) {
  const Random root(1);
  std::set<Words> streams;
  const std::vector<Random> places = {root,
                                      Random(2),
                                      Random(std::uint64_t{1} << 32),
                                      root.child(0),
                                      root.child(1),
                                      root.child(0).child(1),
                                      root.child(1).child(0),
                                      root.child(0).child(0),
                                      root.child(""),
                                      root.child("a"),
                                      root.child("b"),
                                      root.child("a").child("b"),
                                      root.child("b").child("a"),
                                      root.child("ab")};
  for (const auto& place : places) streams.insert(place.block(0));
  EXPECT_EQ(streams.size(), places.size());
  EXPECT_EQ(root.child("a").child(5).block(9), Random(1).child("a").child(5).block(9));
}

TEST(Random, NormalSamplesHaveExpectedMoments) {
  const Random random = Random(3).child("weights");
  constexpr int count = 200000;
  double moments[5] = {};
  double pairs = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double x = random.normal_at(i);
    double power = 1;
    for (double& moment : moments) {
      moment += power / count;
      power *= x;
    }
    pairs += x * random.normal_at(i + 1) / count;
  }
  EXPECT_NEAR(moments[1], 0, 0.01);
  EXPECT_NEAR(moments[2], 1, 0.015);
  EXPECT_NEAR(moments[3], 0, 0.04);
  EXPECT_NEAR(moments[4], 3, 0.12);
  EXPECT_NEAR(pairs, 0, 0.01);
}

TEST(ShardPlacement, ReturnsGlobalIndex) {
  const ShardPlacement part{
      .outer_begin = 2, .middle_begin = 3, .middle_total = 10, .inner_begin = 5, .inner_total = 7};
  EXPECT_EQ(part.index(0, 0, 0), (2u * 10 + 3) * 7 + 5);
  EXPECT_EQ(part.index(1, 2, 1), (3u * 10 + 5) * 7 + 6);
  EXPECT_EQ((ShardPlacement{.middle_total = 4, .inner_total = 5}).index(1, 2, 3), 33u);
}

}  // namespace
}  // namespace longspan::random_test
