#include "framework/report/tailed_metrics.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "framework/core/error.h"
#include "tests/support/temporary_directory.h"

namespace longspan::tailed_metrics_test {
namespace {

std::string line(std::int64_t step, double loss) {
  return fmt::format("{{\"step\": {}, \"tokens\": {}, \"loss\": {}}}\n", step, 10 * step, loss);
}

class TailedMetricsTest : public ::testing::Test {
 protected:
  void write(const std::string& text) { std::ofstream(path(), std::ios::binary) << text; }
  void append(const std::string& text) {
    std::ofstream(path(), std::ios::binary | std::ios::app) << text;
  }
  std::filesystem::path path() const { return directory_.path() / "metrics.jsonl"; }
  // Reads the current file from its beginning.
  RunMetrics whole() const { return read_run_metrics(path(), buckets); }
  // Expects equal results from incremental and full reads.
  void expect_as_whole(const TailedMetrics& metrics) const {
    const RunMetrics expected = whole();
    const RunMetrics& found = metrics.metrics();
    EXPECT_EQ(found.lines, expected.lines);
    EXPECT_EQ(found.repeated, expected.repeated);
    EXPECT_EQ(found.step, expected.step);
    ASSERT_EQ(found.series.names(), expected.series.names());
    for (std::size_t column = 0; column < expected.series.names().size(); ++column) {
      const auto& cells = found.series.cells(column);
      ASSERT_EQ(cells.size(), expected.series.cells(column).size());
      for (std::size_t i = 0; i < cells.size(); ++i)
        EXPECT_EQ(cells[i].sum, expected.series.cells(column)[i].sum);
    }
  }

  static constexpr std::size_t buckets = 4;

  testing::TemporaryDirectory directory_;
};

TEST_F(TailedMetricsTest, ReadsAppendedLines) {
  TailedMetrics metrics(path(), buckets);
  EXPECT_FALSE(metrics.poll());
  EXPECT_EQ(metrics.metrics().lines, 0);
  write(line(1, 1) + "{\"step\": 2, \"tok");
  EXPECT_TRUE(metrics.poll());
  EXPECT_EQ(metrics.metrics().lines, 1);
  EXPECT_FALSE(metrics.poll());
  append("ens\": 20, \"loss\": 2}\n");
  EXPECT_TRUE(metrics.poll());
  EXPECT_EQ(metrics.metrics().step, 2);
  for (std::int64_t step = 3; step < 40; ++step) {
    append(line(step, 1.0 / static_cast<double>(step)));
    EXPECT_TRUE(metrics.poll());
    expect_as_whole(metrics);
  }
}

// The first byte is not read again, so damage there is not found.
TEST_F(TailedMetricsTest, DoesNotReadConsumedBytesAgain) {
  std::string text = line(1, 1) + line(2, 2);
  write(text);
  TailedMetrics metrics(path(), buckets);
  metrics.poll();
  text.front() = 'x';
  write(text);
  append(line(3, 3));
  EXPECT_TRUE(metrics.poll());
  EXPECT_EQ(metrics.metrics().lines, 3);
}

TEST_F(TailedMetricsTest, RestartsIfTruncatedReplacedOrRemoved) {
  write(line(1, 1) + line(2, 2) + line(3, 3));
  TailedMetrics metrics(path(), buckets);
  metrics.poll();
  write(line(1, 1));
  EXPECT_TRUE(metrics.poll());
  EXPECT_EQ(metrics.metrics().step, 1);
  // Truncated, but longer than before at the next poll.
  write(line(1, 1) + line(2, 20) + line(3, 30) + line(4, 40));
  metrics.poll();
  write(line(1, 1) + line(2, 21) + line(3, 31) + line(4, 41) + line(5, 51));
  EXPECT_TRUE(metrics.poll());
  expect_as_whole(metrics);
  const std::string other = line(1, 7) + line(2, 8) + line(3, 9) + line(4, 41) + line(5, 51);
  std::ofstream(directory_.path() / "other", std::ios::binary) << other;
  std::filesystem::rename(directory_.path() / "other", path());
  EXPECT_TRUE(metrics.poll());
  expect_as_whole(metrics);
  std::filesystem::remove(path());
  EXPECT_TRUE(metrics.poll());
  EXPECT_EQ(metrics.metrics().lines, 0);
  EXPECT_FALSE(metrics.poll());
}

TEST_F(TailedMetricsTest, CountsRepeatedStepsOnce) {
  write(line(1, 1) + line(2, 2) + line(3, 3));
  TailedMetrics metrics(path(), buckets);
  metrics.poll();
  append(line(2, 22));
  EXPECT_TRUE(metrics.poll());
  EXPECT_EQ(metrics.metrics().repeated, 2);
  expect_as_whole(metrics);
  append(line(3, 33) + line(4, 44));
  EXPECT_TRUE(metrics.poll());
  expect_as_whole(metrics);
}

TEST_F(TailedMetricsTest, ReportsInvalidLineAndRecoversAfterRepair) {
  write(line(1, 1));
  TailedMetrics metrics(path(), buckets);
  metrics.poll();
  append("hello\n");
  try {
    metrics.poll();
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.what(), path().string() + ":2: expected a line of metrics");
  }
  EXPECT_THROW(metrics.poll(), DataError);
  write(line(1, 1) + line(2, 2));
  EXPECT_TRUE(metrics.poll());
  EXPECT_EQ(metrics.metrics().lines, 2);
}

}  // namespace
}  // namespace longspan::tailed_metrics_test
