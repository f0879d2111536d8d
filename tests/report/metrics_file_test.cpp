#include "framework/report/metrics_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "framework/core/error.h"
#include "framework/report/tailed_file.h"
#include "tests/support/temporary_directory.h"

namespace longspan::metrics_file_test {
namespace {

class RunMetricsFile : public ::testing::Test {
 protected:
  RunMetrics read(const std::string& text) {
    write(text);
    return read_run_metrics(path());
  }
  void write(const std::string& text) { std::ofstream(path(), std::ios::binary) << text; }
  std::string refusal(const std::string& text) {
    write(text);
    try {
      read_run_metrics(path());
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  }
  std::filesystem::path path() const { return directory_.path() / "metrics.jsonl"; }

  testing::TemporaryDirectory directory_;
};

std::string line(std::int64_t step, double loss) {
  return fmt::format("{{\"step\": {}, \"tokens\": {}, \"loss\": {}}}\n", step, 10 * step, loss);
}

// Returns the mean of a column in each bucket.
std::vector<double> means(const RunMetrics& metrics, const char* column) {
  std::vector<double> values;
  for (const Cell& cell : metrics.series.cells(*metrics.series.find(column)))
    values.push_back(cell.mean());
  return values;
}

TEST_F(RunMetricsFile, ReadsOnlyCompleteLines) {
  const RunMetrics metrics = read(line(1, 3) + line(2, 2) + R"({"step": 3, "lo)");
  EXPECT_EQ(metrics.step, 2);
  EXPECT_EQ(metrics.lines, 2);
  EXPECT_EQ(metrics.tokens, 20);
  EXPECT_EQ(means(metrics, "loss"), (std::vector<double>{3, 2}));
  EXPECT_EQ(metrics.ends.front().value, 2);
  EXPECT_EQ(metrics.ends.front().step, 2);
  EXPECT_EQ(metrics.seconds, 0);
}

TEST_F(RunMetricsFile, LaterLinesReplaceRepeatedSteps) {
  const RunMetrics metrics = read(line(1, 1) + line(2, 2) + line(3, 3) + line(4, 4) + line(3, 33) +
                                  line(5, 55) + line(2, 222) + line(6, 666));
  EXPECT_EQ(metrics.repeated, 5);
  EXPECT_EQ(metrics.lines, 3);
  EXPECT_EQ(metrics.step, 6);
  EXPECT_EQ(means(metrics, "loss"), (std::vector<double>{1, 222, 666}));
  EXPECT_EQ(metrics.series.buckets()[1].tokens, 20);
}

TEST_F(RunMetricsFile, KeepsLastLineForRepeatedStep) {
  EXPECT_EQ(means(read(line(1, 1) + line(1, 2)), "loss"), std::vector<double>{2});
}

TEST_F(RunMetricsFile, SumsStepTimesOrDerivesThemFromSpeed) {
  const RunMetrics measured = read(
      "{\"step\": 10, \"tokens\": 100, \"tokens_per_second\": 1.0, \"step_seconds\": 2.0, "
      "\"data_loading_seconds\": 0.25, \"communication_wait_seconds\": 0.5}\n"
      "{\"step\": 15, \"tokens\": 150, \"step_seconds\": 4.0, \"data_loading_seconds\": 5.0}\n");
  EXPECT_EQ(measured.seconds, 10 * 2 + 5 * 4);
  EXPECT_EQ(means(measured, compute_seconds), (std::vector<double>{1.25, 0}));
  const RunMetrics derived = read(
      "{\"step\": 10, \"tokens\": 100, \"tokens_per_second\": 50.0}\n"
      "{\"step\": 20, \"tokens\": 300, \"tokens_per_second\": 100.0}\n");
  EXPECT_EQ(derived.seconds, 2 + 2);
  EXPECT_FALSE(derived.series.find(compute_seconds));
}

TEST_F(RunMetricsFile, IgnoresInvalidTimes) {
  const RunMetrics measured = read(
      "{\"step\": 1, \"step_seconds\": 2.0}\n"
      "{\"step\": 2, \"step_seconds\": -5.0}\n"
      "{\"step\": 4, \"step_seconds\": 1e308}\n"
      "{\"step\": 5, \"step_seconds\": 3.0}\n");
  EXPECT_EQ(measured.seconds, 5);
  const RunMetrics derived = read(
      "{\"step\": 1, \"tokens\": 100, \"tokens_per_second\": 50.0}\n"
      "{\"step\": 2, \"tokens\": 1e308, \"tokens_per_second\": 1e-308}\n"
      "{\"step\": 3, \"tokens\": 300, \"tokens_per_second\": 100.0}\n");
  EXPECT_EQ(derived.seconds, 2);
  EXPECT_EQ(derived.tokens, 300);
}

TEST_F(RunMetricsFile, CountsGapsWithReason) {
  const RunMetrics metrics =
      read(line(1, 1) + R"({"step": 2, "loss": null, "loss_reason": "inf"})" + "\n" + line(3, 3) +
           R"({"step": 4, "loss": null, "loss_reason": "-inf"})" + "\n");
  const ColumnEnd& loss = metrics.ends[*metrics.series.find("loss")];
  EXPECT_EQ(loss.value, 3);
  EXPECT_EQ(loss.step, 3);
  EXPECT_EQ(loss.gaps, 2);
  EXPECT_EQ(loss.first_gap, 2);
  EXPECT_EQ(loss.reason_of_last, "-inf");
  EXPECT_TRUE(metrics.texts.empty());
}

TEST_F(RunMetricsFile, KeepsNewestTexts) {
  std::string text;
  for (int step = 1; step <= 100; ++step)
    text += fmt::format(
        "{{\"step\": {}, \"sample\": \"of {}\", \"halt_reason\": \"x\"}}\n", step, step);
  const RunMetrics metrics = read(text);
  ASSERT_FALSE(metrics.texts.empty());
  EXPECT_LE(metrics.texts.size(), 50U);
  EXPECT_EQ(metrics.texts.back().step, 100);
  EXPECT_EQ(metrics.texts.back().name, "halt_reason");
  EXPECT_EQ(metrics.texts[metrics.texts.size() - 2].text, "of 100");
}

TEST_F(RunMetricsFile, ReadsLinesLongerThanABlock) {
  const std::string long_text(3'000'000, 'a');
  const RunMetrics metrics =
      read(line(1, 1) + "{\"step\": 2, \"sample\": \"" + long_text + "\"}\n" + line(3, 3));
  EXPECT_EQ(metrics.step, 3);
  EXPECT_EQ(metrics.lines, 3);
  ASSERT_EQ(metrics.texts.size(), 1U);
  EXPECT_LT(metrics.texts.front().text.size(), long_text.size());
}

TEST_F(RunMetricsFile, RejectsInvalidFilesWithLineNumber) {
  EXPECT_NE(refusal(line(1, 1) + "hello\n" + line(2, 2)).find("metrics.jsonl:2: expected a line"),
            std::string::npos);
  EXPECT_NE(refusal("").find("has no complete line: the run has logged no step yet"),
            std::string::npos);
  EXPECT_NE(refusal("{\"step\": 1").find("has no complete line"), std::string::npos);
  std::filesystem::remove(path());
  EXPECT_THROW(read_run_metrics(path()), DataError);
}

TEST_F(RunMetricsFile, ReturnsNewestLogWarnings) {
  const std::filesystem::path log = directory_.path() / "log.txt";
  EXPECT_TRUE(log_warnings(log).empty());
  std::string text = "not a line of a log\n";
  for (int i = 0; i < 100; ++i)
    text += fmt::format("2025-01-31 12:34:56.{:03} {} number {}\n",
                        i,
                        i % 2 == 0   ? "info"
                        : i % 4 == 1 ? "warning"
                                     : "error",
                        i);
  std::ofstream(log) << text << "2025-01-31 12:34:56.000 warning without its en";
  const auto found = log_warnings(log, 3);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_TRUE(found[0].ends_with("number 97"));
  EXPECT_TRUE(found[1].ends_with("error number 99"));
}

TEST_F(RunMetricsFile, TruncatesLongLogLinesAndIgnoresPipes) {
  const std::filesystem::path log = directory_.path() / "log.txt";
  const std::string time = "2025-01-31 12:34:56.000 ";
  // The text after the truncation of a line is not a line.
  const std::string long_line =
      time + "info " + std::string(971, 'a') + time + "warning of no line";
  const std::string exact = time + "warning " + std::string(968, 'b');
  std::ofstream(log) << long_line << '\n'
                     << exact << "\n"
                     << exact << "more\n\n"
                     << time << "error c";
  EXPECT_EQ(log_warnings(log), (std::vector<std::string>{exact, exact, time + "error c"}));
  std::filesystem::remove(log);
  ASSERT_EQ(::mkfifo(log.c_str(), 0600), 0);
  EXPECT_TRUE(log_warnings(log).empty());
}

}  // namespace
}  // namespace longspan::metrics_file_test
