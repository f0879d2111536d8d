#include "framework/kernels/attention/hash_buckets.h"

#include <algorithm>

#include "tests/kernels/kernel_testing.h"

namespace longspan::hash_buckets_test {
namespace {

using namespace longspan::testing;
using Ids = std::vector<std::int32_t>;

Ids ids_in(const Tensor& tensor) {
  const Tensor here = tensor.to_host();
  const auto span = here.span<std::int32_t>();
  return {span.begin(), span.end()};
}

Tensor multiple(const Tensor& x, double factor) {
  Values values = values_of(x);
  for (double& value : values) value *= factor;
  return tensor_of<float>(values, x.shape());
}

constexpr std::int64_t batch = 2, heads = 3, rounds = 2, dim = 5;

template <typename T>
BucketHash random_hash(std::int64_t time, const BucketCount& count) {
  using A = Accumulator<T>;
  BucketHash hash;
  hash.x = tensor_of<T>(normal_values<T>(batch * time * heads * dim, 1), {batch, time, heads, dim});
  const Shape shape = {heads, dim, rounds, count.columns()};
  hash.rotations = tensor_of<A>(normal_values<A>(shape.elements(), 2), shape);
  hash.count = count;
  hash.buckets = Tensor::empty({batch, heads, rounds, time}, DType::i32, backend_device());
  return hash;
}

// Literal argmax of [y; -y].
std::int32_t largest(const Values& y) {
  Values both = y;
  for (const double value : y) both.push_back(-value);
  return static_cast<std::int32_t>(std::max_element(both.begin(), both.end()) - both.begin());
}

Ids plain_buckets(const BucketHash& hash) {
  const Values x = values_of(hash.x), rotations = values_of(hash.rotations);
  const std::int64_t time = hash.x.shape()[1], columns = hash.count.columns();
  Ids result;
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t r = 0; r < rounds; ++r)
        for (std::int64_t t = 0; t < time; ++t) {
          Values y(static_cast<std::size_t>(columns), 0);
          for (std::int64_t d = 0; d < dim; ++d)
            for (std::int64_t c = 0; c < columns; ++c)
              y[static_cast<std::size_t>(c)] +=
                  x[static_cast<std::size_t>(((b * time + t) * heads + h) * dim + d)] *
                  rotations[static_cast<std::size_t>(((h * dim + d) * rounds + r) * columns + c)];
          const auto middle = y.begin() + hash.count.first / 2;
          const std::int32_t low = largest({y.begin(), middle});
          const std::int32_t high = hash.count.second > 1 ? largest({middle, y.end()}) : 0;
          result.push_back(low + static_cast<std::int32_t>(hash.count.first) * high);
        }
  return result;
}

template <typename T>
class BucketHashTest : public ::testing::Test {};
TYPED_TEST_SUITE(BucketHashTest, FloatingTypes);

TYPED_TEST(BucketHashTest, ReturnsIndexOfLargestSignedCoordinate) {
  for (const BucketCount& count :
       {BucketCount{2}, BucketCount{6}, BucketCount{40}, BucketCount{4, 2}, BucketCount{34, 6}})
    for (const std::int64_t time : {1, 7, 64, 130}) {
      if (emulated && time % 10 != (count.first > 30 ? 0 : 7)) continue;
      const BucketHash hash = random_hash<TypeParam>(time, count);
      hash_buckets(backend(), hash);
      EXPECT_EQ(ids_in(hash.buckets), plain_buckets(hash)) << count.first << " x " << count.second;
    }
}

TYPED_TEST(BucketHashTest, DoesNotDependOnThreadCount) {
  const BucketHash hash = random_hash<TypeParam>(700, {34, 6});
  const auto run = [&] {
    hash_buckets(backend(), hash);
    return ids_in(hash.buckets);
  };
  EXPECT_EQ(with_threads(1, run), with_threads(3, run));
}

TEST(BucketHash, MultiplesShareBucketAndNegationFlipsIt) {
  BucketHash hash = random_hash<float>(9, {12});
  hash_buckets(backend(), hash);
  const Ids before = ids_in(hash.buckets);
  hash.x = multiple(hash.x, 4);
  hash_buckets(backend(), hash);
  EXPECT_EQ(ids_in(hash.buckets), before);
  hash.x = multiple(hash.x, -1);
  hash_buckets(backend(), hash);
  const Ids opposite = ids_in(hash.buckets);
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(opposite[i], (before[i] + 6) % 12);
}

TEST(BucketHash, MapsZeroAndNanToBucketZero) {
  BucketHash hash = random_hash<float>(3, {8, 4});
  Values values(static_cast<std::size_t>(hash.x.elements()), 0.0);
  values[0] = nan;
  hash.x = tensor_of<float>(values, hash.x.shape());
  hash_buckets(backend(), hash);
  for (const std::int32_t bucket : ids_in(hash.buckets)) EXPECT_EQ(bucket, 0);
}

TEST(BucketHash, PaddingHasSeparateBucket) {
  BucketHash hash = random_hash<float>(4, {6});
  hash.padding = Tensor::from<std::uint8_t>(
      std::vector<std::uint8_t>{0, 1, 0, 0, 0, 0, 0, 0}, {batch, 4}, backend_device());
  hash.length = ids_of({4, 2});
  hash_buckets(backend(), hash);
  BucketHash single = hash;
  single.count = {1};
  single.rotations = {};
  single.buckets = Tensor::empty({batch, heads, rounds, 4}, DType::i32, backend_device());
  hash_buckets(backend(), single);
  const Ids found = ids_in(hash.buckets), one = ids_in(single.buckets);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool padded = i / (heads * rounds * 4) == 0 ? i % 4 == 1 : i % 4 >= 2;
    EXPECT_EQ(found[i] == 6, padded) << i;
    EXPECT_EQ(one[i], padded ? 1 : 0) << i;
  }
}

TEST(BucketHash, FactorsBucketCounts) {
  EXPECT_EQ(factored(1), (BucketCount{1}));
  EXPECT_EQ(factored(62), (BucketCount{62}));
  EXPECT_EQ(factored(64), (BucketCount{8, 8}));
  EXPECT_EQ(factored(128), (BucketCount{16, 8}));
  EXPECT_EQ(factored(32768), (BucketCount{256, 128}));
  EXPECT_EQ(factored(66), (BucketCount{66}));
  EXPECT_EQ(factored(4 * 101), (BucketCount{202, 2}));
  EXPECT_THROW(factored(7), Failure);
}

BucketSort sorted(const Ids& buckets, std::int64_t count, const Shape& shape) {
  BucketSort sort = {.bucket = Tensor::from<std::int32_t>(buckets, shape, backend_device()),
                     .buckets = count};
  sort.order = sort.bucket.empty_like();
  sort.place = sort.bucket.empty_like();
  sort_buckets(backend(), sort);
  return sort;
}

TEST(BucketSort, SortsByBucketThenPositionWithoutPadding) {
  const BucketSort sort = sorted({2, 0, 3, 2, 0, 1, /**/ 3, 3, 0, 3, 3, 3}, 3, {2, 6});
  EXPECT_EQ(ids_in(sort.order), (Ids{1, 4, 5, 0, 3, -1, /**/ 2, -1, -1, -1, -1, -1}));
  EXPECT_EQ(ids_in(sort.place), (Ids{3, 0, -1, 4, 1, 2, /**/ -1, -1, 0, -1, -1, -1}));
}

TEST(BucketSort, PlaceIsInverseOfOrderForAnyThreadCount) {
  constexpr std::int64_t rows = 7, time = 5000, buckets = 90;
  Ids bucket;
  const Random random(4);
  for (std::uint64_t i = 0; i < rows * time; ++i)
    bucket.push_back(static_cast<std::int32_t>(random.word(i) % buckets));
  const auto run = [&] { return sorted(bucket, buckets, {rows, time}); };
  const BucketSort sort = with_threads(3, run);
  const Ids order = ids_in(sort.order), place = ids_in(sort.place);
  EXPECT_EQ(order, ids_in(with_threads(1, run).order));
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t s = 0; s < time; ++s) {
      const auto at = static_cast<std::size_t>(row * time + s);
      ASSERT_EQ(place[static_cast<std::size_t>(row * time + order[at])], s);
      if (s == 0) continue;
      const auto key = [&](std::size_t slot) {
        return std::pair(bucket[static_cast<std::size_t>(row * time + order[slot])], order[slot]);
      };
      ASSERT_LT(key(at - 1), key(at));
    }
}

TEST(BucketSort, RejectsInvalidBucketsOrTreatsThemAsPadding) {
  if (emulated) {
    const BucketSort sort = sorted({0, 4, -1, /**/ 2, 1, 3}, 3, {2, 3});
    EXPECT_EQ(ids_in(sort.order), (Ids{0, -1, -1, /**/ 1, 0, -1}));
    EXPECT_EQ(ids_in(sort.place), (Ids{0, -1, -1, /**/ 1, 0, -1}));
    return;
  }
  EXPECT_THROW(sorted({0, 4}, 3, {1, 2}), Failure);
  EXPECT_THROW(sorted({0, -1}, 3, {1, 2}), Failure);
}

}  // namespace
}  // namespace longspan::hash_buckets_test
