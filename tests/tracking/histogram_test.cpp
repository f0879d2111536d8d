#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "framework/tracking/metrics_record.h"

namespace longspan::histogram_test {
namespace {

Tensor numbers(const std::vector<double>& values) {
  return Tensor::from<double>(values, {std::ssize(values)}, Device::cpu(), MemoryTag::workspace);
}

// At least the upper end of the previous bucket, at most its own.
TEST(Histogram, ValueIsWithinItsBucket) {
  std::mt19937_64 bits(5);
  std::normal_distribution<double> exponent(0, 10);
  for (int i = 0; i < 20000; ++i) {
    const double value = (i % 2 == 0 ? 1 : -1) * std::exp2(exponent(bits));
    if (std::abs(value) >= 0x1p24) continue;
    const std::size_t bucket = bucket_of(value);
    ASSERT_LE(value, upper_end_of_bucket(bucket)) << value;
    if (bucket > 0) {
      ASSERT_GE(value, upper_end_of_bucket(bucket - 1)) << value;
    }
  }
}

TEST(Histogram, BucketsAreNarrowAndInOrder) {
  for (std::size_t i = 1; i < histogram_buckets(); ++i) {
    const double before = upper_end_of_bucket(i - 1);
    const double end = upper_end_of_bucket(i);
    ASSERT_LT(before, end);
    if (before > 0) {
      ASSERT_LE(end / before, 1.125);
    }
  }
}

TEST(Histogram, CountsAndExtremesMatchElements) {
  const Histogram found = histogram_of(numbers({-2, 0, 0.5, 0.5, 3}), 2);
  EXPECT_EQ(found.count(), 5);
  EXPECT_EQ(found.smallest, -4);
  EXPECT_EQ(found.largest, 6);
  EXPECT_EQ(found.sum, 4);
  EXPECT_EQ(found.sum_of_squares, 16 + 1 + 1 + 36);
  EXPECT_EQ(found.counts[bucket_of(1)], 2);
  EXPECT_EQ(found.counts[bucket_of(0)], 1);
}

TEST(Histogram, IgnoresNonFiniteValues) {
  const double infinite = std::numeric_limits<double>::infinity();
  const Histogram found = histogram_of(numbers({std::nan(""), 1, infinite, -infinite}));
  EXPECT_EQ(found.count(), 1);
  EXPECT_EQ(found.largest, 1);
  EXPECT_TRUE(histogram_of(numbers({std::nan("")})).counts.empty());
}

TEST(Histogram, OutermostBucketsCountValuesBeyondRange) {
  const Histogram found = histogram_of(numbers({1e30, -1e30, 1e-30}));
  EXPECT_EQ(found.counts.front(), 1);
  EXPECT_EQ(found.counts.back(), 1);
  EXPECT_EQ(found.counts[bucket_of(0)], 1);
}

TEST(Histogram, BarsCountAllElementsInFewBuckets) {
  const Histogram found = histogram_of(numbers({-1, -1, 0, 0.25, 8}));
  const Bars bars = bars_of(found);
  ASSERT_EQ(bars.counts.size(), bars.upper_ends.size());
  EXPECT_EQ(std::accumulate(bars.counts.begin(), bars.counts.end(), 0.0), 5);
  // -1, a gap, 0, a gap, 0.25, a gap, 8.
  EXPECT_EQ(bars.counts, (std::vector<double>{2, 0, 1, 0, 1, 0, 1}));
  EXPECT_TRUE(std::is_sorted(bars.upper_ends.begin(), bars.upper_ends.end()));
  EXPECT_GE(bars.upper_ends.back(), 8);
  EXPECT_TRUE(bars_of(Histogram()).counts.empty());
}

}  // namespace
}  // namespace longspan::histogram_test
