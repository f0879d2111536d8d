#include "framework/kernels/dropout.h"

#include "framework/kernels/cpu/philox.h"
#include "framework/kernels/elementwise.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::dropout_test {
namespace {

using namespace longspan::testing;

TEST(Philox, BlocksMatchRandom) {
  const Random random = Random(0x1234567890abcdefu).child("here").child(7);
  // Includes the boundary where the block index exceeds 32 bits.
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{5}, std::uint64_t{0xfffffff9u}})
    for (const std::int64_t count : {0, 1, 7, 8, 9, 37}) {
      std::vector<std::uint32_t> words(static_cast<std::size_t>(4 * count));
      philox_blocks(random, first, count, words.data());
      for (std::size_t i = 0; i < words.size(); ++i)
        EXPECT_EQ(words[i], random.block(first + i / 4)[i % 4]) << first << " " << i;
    }
}

TEST(Philox, ThresholdMatchesUniformComparison) {
  for (const double rate : {0.0, 0x1p-24, 0.1, 1.0 / 3, 0.5, 0.9999999, 1 - 0x1p-30}) {
    const std::uint32_t threshold = dropout_threshold(rate);
    for (const std::uint32_t near : {threshold - 1, threshold, threshold + 1, 0u, 0xffffffu}) {
      if (near > 0xffffffu) continue;
      EXPECT_EQ(near >= threshold, Random::uniform(near << 8) >= rate) << rate << " " << near;
    }
  }
}

template <typename T>
class DropoutTest : public ::testing::Test {};
TYPED_TEST_SUITE(DropoutTest, FloatingTypes);

constexpr ShardPlacement placements[] = {{0, 0, 5, 0, 9},
                                         {0, 0, 8, 0, 9},
                                         {3, 2, 11, 0, 9},
                                         {1, 1, 7, 5, 30},
                                         {(std::int64_t{1} << 40) + 1, 3, 1000, 7, 19}};

TYPED_TEST(DropoutTest, MaskFollowsGlobalIndex) {
  const Random random = Random(42).child("dropout");
  const Shape shape = {4, 5, 9};
  const Values x = normal_values<TypeParam>(shape.elements(), 1);
  for (const auto& placement : placements)
    for (const double rate : {0.0, 0.25, 0.5, 0.9}) {
      Values expected;
      for (std::int64_t o = 0; o < 4; ++o)
        for (std::int64_t m = 0; m < 5; ++m)
          for (std::int64_t i = 0; i < 9; ++i)
            expected.push_back(random.uniform_at(placement.index(o, m, i)) >= rate
                                   ? x[static_cast<std::size_t>((o * 5 + m) * 9 + i)] / (1 - rate)
                                   : 0);
      const Dropout apart{.x = tensor_of<TypeParam>(x, shape),
                          .y = poisoned<TypeParam>(shape),
                          .rate = rate,
                          .random = random,
                          .placement = placement};
      dropout(backend(), apart);
      const Values found = values_of(apart.y);
      expect_close(found, expected, tolerance<TypeParam>(), 0);
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_EQ(found[i] == 0, expected[i] == 0) << i;
      Dropout in_place = apart;
      in_place.y = in_place.x;
      dropout(backend(), in_place);
      EXPECT_TRUE(same_bits(in_place.y, apart.y));
    }
}

TYPED_TEST(DropoutTest, RowSubsetMatchesFullTensor) {
  const Random random = Random(42).child("dropout");
  const std::vector<std::int64_t> rows = {7, 0, 3, 4, 19, 12};
  for (const std::int64_t width : {3, 8}) {
    const ShardPlacement placement = {.middle_total = 20, .inner_begin = 5, .inner_total = 30};
    const Values whole = normal_values<TypeParam>(20 * width, 1);
    const Dropout all{.x = tensor_of<TypeParam>(whole, {1, 20, width}),
                      .y = poisoned<TypeParam>({1, 20, width}),
                      .rate = 0.4,
                      .random = random,
                      .placement = placement};
    dropout(backend(), all);
    Values some, expected;
    for (const std::int64_t row : rows)
      for (std::int64_t i = row * width; i < (row + 1) * width; ++i) {
        some.push_back(whole[static_cast<std::size_t>(i)]);
        expected.push_back(values_of(all.y)[static_cast<std::size_t>(i)]);
      }
    const Shape shape = {2, 3, width};
    const Dropout of_some{
        .x = tensor_of<TypeParam>(some, shape),
        .y = poisoned<TypeParam>(shape),
        .rate = 0.4,
        .random = random,
        .placement = {.inner_begin = 5, .inner_total = 30},
        .rows = Tensor::from<std::int64_t>(rows, {std::ssize(rows)}, backend_device())};
    dropout(backend(), of_some);
    EXPECT_EQ(values_of(of_some.y), expected);
  }
}

TYPED_TEST(DropoutTest, DropoutAddEqualsDropoutThenAdd) {
  for (const auto& placement : placements)
    for (const Shape& shape : {Shape{4, 5, 9}, Shape{1, 5, 8}, Shape{2, 5, 3}}) {
      const Tensor x = tensor_of<TypeParam>(normal_values<TypeParam>(shape.elements(), 1), shape);
      const Tensor base =
          tensor_of<TypeParam>(normal_values<TypeParam>(shape.elements(), 2), shape);
      Dropout call{.x = x,
                   .y = poisoned<TypeParam>(shape),
                   .rate = 0.3,
                   .random = Random(42).child("dropout"),
                   .placement = placement};
      const Tensor expected = poisoned<TypeParam>(shape);
      dropout(backend(), call);
      add(backend(), base, call.y, expected);
      call.y = poisoned<TypeParam>(shape);
      dropout_add(backend(), base, call);
      EXPECT_TRUE(same_bits(call.y, expected));
      call.y = base;
      dropout_add(backend(), base, call);
      EXPECT_TRUE(same_bits(base, expected)) << "in place";
    }
}

TEST(Dropout, MaskDoesNotDependOnSharding) {
  const Random random(7);
  const std::int64_t outer = 4, middle = 6, inner = 70;
  const auto run = [&](std::int64_t o0,
                       std::int64_t o1,
                       std::int64_t m0,
                       std::int64_t m1,
                       std::int64_t i0,
                       std::int64_t i1,
                       Values& whole) {
    const Shape shape = {o1 - o0, m1 - m0, i1 - i0};
    const Dropout part{
        .x = tensor_of<float>(Values(static_cast<std::size_t>(shape.elements()), 1), shape),
        .y = poisoned<float>(shape),
        .rate = 0.3,
        .random = random,
        .placement = {o0, m0, middle, i0, inner}};
    dropout(backend(), part);
    const Values y = values_of(part.y);
    std::size_t at = 0;
    for (std::int64_t o = o0; o < o1; ++o)
      for (std::int64_t m = m0; m < m1; ++m)
        for (std::int64_t i = i0; i < i1; ++i)
          whole[static_cast<std::size_t>((o * middle + m) * inner + i)] = y[at++];
  };
  const auto size = static_cast<std::size_t>(outer * middle * inner);
  Values one(size, nan), parts(size, nan);
  run(0, outer, 0, middle, 0, inner, one);
  for (const std::int64_t o : {0, 2})
    for (const auto& [m0, m1] : {std::pair{0, 1}, {1, 5}, {5, 6}})
      for (const auto& [i0, i1] : {std::pair{0, 33}, {33, 35}, {35, 70}})
        run(o, o + 2, m0, m1, i0, i1, parts);
  EXPECT_EQ(one, parts);
  const auto kept = static_cast<double>(std::ranges::count_if(one, [](double y) { return y > 0; }));
  EXPECT_NEAR(kept / static_cast<double>(size), 0.7, 0.05);
}

TEST(Dropout, NoncontiguousRowsMatchFullTensor) {
  const std::int64_t outer = 3, middle = 700, inner = 11;
  const auto run = [&](const ShardPlacement& placement, std::int64_t rows, std::int64_t width) {
    const Shape shape = {outer, rows, width};
    const Dropout call{
        .x = tensor_of<float>(Values(static_cast<std::size_t>(shape.elements()), 1), shape),
        .y = poisoned<float>(shape),
        .rate = 0.3,
        .random = Random(7),
        .placement = placement};
    dropout(backend(), call);
    return values_of(call.y);
  };
  const Values whole = run({.middle_total = middle, .inner_total = inner}, middle, inner);
  const Ranges held = {{690, 700}, {3, 4}, {100, 500}};
  for (const Range& features : {Range{0, inner}, Range{4, 9}}) {
    const Values found = run({.middle_total = middle,
                              .inner_begin = features.begin,
                              .inner_total = inner,
                              .middle_ranges = held},
                             total_count(held),
                             features.count());
    std::size_t at = 0;
    for (std::int64_t o = 0; o < outer; ++o)
      for (const Range& range : held)
        for (std::int64_t row = range.begin; row < range.end; ++row)
          for (std::int64_t i = features.begin; i < features.end; ++i)
            ASSERT_EQ(found[at++], whole[static_cast<std::size_t>((o * middle + row) * inner + i)]);
  }
}

TEST(Dropout, MaskDoesNotDependOnThreadCount) {
  const auto run = [](int threads) {
    return with_threads(threads, [] {
      const Shape shape = {3, 1111, 31};
      const Dropout large{.x = tensor_of<float>(normal_values<float>(shape.elements(), 1), shape),
                          .y = poisoned<float>(shape),
                          .rate = 0.1,
                          .random = Random(5),
                          .placement = {1, 2, 1200, 3, 37}};
      dropout(backend(), large);
      return large.y;
    });
  };
  const Tensor one = run(1);
  EXPECT_TRUE(same_bits(one, run(2)));
  EXPECT_TRUE(same_bits(one, run(3)));
}

TEST(Dropout, RejectsWrongRatesAndShapes) {
  Dropout wrong{.x = poisoned<float>({2, 3, 4}),
                .y = poisoned<float>({2, 3, 4}),
                .rate = 1,
                .random = Random(1),
                .placement = {}};
  EXPECT_THROW(dropout(backend(), wrong), Failure);
  wrong.rate = 0.5;
  wrong.x = poisoned<float>({6, 4});
  EXPECT_THROW(dropout(backend(), wrong), Failure);
  wrong.x = poisoned<float>({2, 3, 4});
  EXPECT_THROW(dropout_add(backend(), poisoned<float>({2, 3}), wrong), Failure);
}

}  // namespace
}  // namespace longspan::dropout_test
