#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "framework/core/error.h"
#include "framework/report/metrics_file.h"

namespace longspan::downsampled_series_test {
namespace {

Bucket at(std::int64_t step) {
  return {step, 10.0 * static_cast<double>(step), 0.5 * static_cast<double>(step)};
}

TEST(DownsampledSeries, KeepsFewStepsUnchanged) {
  DownsampledSeries series(8);
  const std::size_t loss = series.column("loss");
  for (std::int64_t step = 1; step <= 8; ++step) {
    series.begin(at(step * 10));
    series.add(loss, static_cast<double>(step));
  }
  ASSERT_EQ(series.buckets().size(), 8U);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(series.buckets()[i].step, 10 * static_cast<std::int64_t>(i + 1));
    EXPECT_EQ(series.cells(loss)[i].mean(), static_cast<double>(i + 1));
    EXPECT_EQ(series.cells(loss)[i].least, series.cells(loss)[i].most);
  }
}

// The bucket of an outlier contains its value, regardless of the width of buckets.
TEST(DownsampledSeries, KeepsPeaks) {
  constexpr std::int64_t steps = 20000;
  for (const std::int64_t peak : {std::int64_t{1}, std::int64_t{7777}, steps}) {
    DownsampledSeries series(50);
    const std::size_t loss = series.column("loss");
    double sum = 0;
    for (std::int64_t step = 1; step <= steps; ++step) {
      const double value = step == peak ? 1000 : std::sin(static_cast<double>(step));
      series.begin(at(step));
      series.add(loss, value);
      sum += value;
    }
    ASSERT_LE(series.buckets().size(), 50U);
    EXPECT_GE(series.buckets().size(), 25U);
    EXPECT_EQ(series.buckets().back().step, steps);
    EXPECT_EQ(series.buckets().back().tokens, 10.0 * steps);
    double all = 0;
    std::int64_t count = 0;
    int peaks = 0;
    std::int64_t before = 0;
    for (std::size_t i = 0; i < series.buckets().size(); ++i) {
      const Cell& cell = series.cells(loss)[i];
      all += cell.sum;
      count += cell.count;
      const bool holds = before < peak && peak <= series.buckets()[i].step;
      EXPECT_EQ(cell.most == 1000, holds) << i;
      peaks += cell.most == 1000 ? 1 : 0;
      EXPECT_LE(cell.least, cell.mean());
      EXPECT_LE(cell.mean(), cell.most);
      before = series.buckets()[i].step;
    }
    EXPECT_EQ(peaks, 1);
    EXPECT_EQ(count, steps);
    EXPECT_NEAR(all, sum, 1e-6);
  }
}

TEST(DownsampledSeries, KeepsPositionsInSparseColumns) {
  DownsampledSeries series(16);
  const std::size_t loss = series.column("loss");
  const std::size_t validation = series.column("validation_loss");
  for (std::int64_t step = 1; step <= 1000; ++step) {
    series.begin(at(step));
    series.add(loss, 1);
    if (step % 500 == 0) series.add(validation, static_cast<double>(step));
  }
  std::int64_t found = 0;
  for (std::size_t i = 0; i < series.cells(validation).size(); ++i) {
    const Cell& cell = series.cells(validation)[i];
    if (cell.is_empty()) continue;
    found += cell.count;
    EXPECT_GE(static_cast<double>(series.buckets()[i].step), cell.most);
    if (i > 0) {
      EXPECT_LT(static_cast<double>(series.buckets()[i - 1].step), cell.least);
    }
  }
  EXPECT_EQ(found, 2);
}

TEST(DownsampledSeries, CountsNonFiniteValuesAsGaps) {
  DownsampledSeries series(4);
  const std::size_t loss = series.column("loss");
  series.begin(at(1));
  series.add(loss, std::nan(""));
  series.begin(at(2));
  series.add(loss, std::numeric_limits<double>::infinity());
  series.begin(at(3));
  series.add(loss, 3);
  EXPECT_EQ(series.cells(loss)[0].gaps, 1);
  EXPECT_EQ(series.cells(loss)[1].count, 0);
  EXPECT_FALSE(series.cells(loss)[1].is_empty());
  series.thin_to(2);
  std::int64_t gaps = 0;
  for (const Cell& cell : series.cells(loss)) {
    gaps += cell.gaps;
    if (cell.count > 0) {
      EXPECT_EQ(cell.mean(), 3);
    }
  }
  EXPECT_EQ(gaps, 2);
}

TEST(DownsampledSeries, RejectsStepsThatDoNotIncrease) {
  DownsampledSeries series(4);
  series.begin(at(5));
  EXPECT_THROW(series.begin(at(5)), Failure);
}

}  // namespace
}  // namespace longspan::downsampled_series_test
