#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "framework/core/error.h"
#include "framework/tracking/jsonl_file.h"
#include "tests/support/temporary_directory.h"

namespace longspan::samples_lines_test {
namespace {

class SamplesFile : public ::testing::Test {
 protected:
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path_, std::ios::binary).rdbuf();
    return all.str();
  }
  void put(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }
  static std::string lines(std::initializer_list<std::int64_t> steps) {
    std::string all;
    for (const std::int64_t step : steps) all += samples_lines().lines(at_step(step));
    return all;
  }
  // A record with two samples.
  static MetricsRecord at_step(std::int64_t step) {
    const TextSample sample = {"read", "written", "wanted"};
    return {.step = step, .time = 1, .fields = {}, .texts = {sample, sample}};
  }
  static void open(const std::filesystem::path& path, std::int64_t last_step) {
    const JsonlFile file(path, last_step, samples_lines());
  }
  void expect_rejected(std::int64_t last_step, const std::string& content, int line) {
    put(content);
    try {
      open(path_, last_step);
      ADD_FAILURE() << content;
    } catch (const DataError& error) {
      EXPECT_EQ(
          error.what(),
          path_.string() + ":" + std::to_string(line) + ": expected a sample; move the file away");
    }
    EXPECT_EQ(text(), content);
  }

  testing::TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_.path() / "samples.jsonl";
};

TEST_F(SamplesFile, LineIsJsonForAnyText) {
  const MetricsRecord record = {
      .step = 7, .time = 1, .fields = {}, .texts = {{"a\"\n", "\xff", ""}, {}}};
  EXPECT_EQ(
      samples_lines().lines(record),
      "{\"step\": 7, \"sample\": 0, \"input\": \"a\\\"\\n\", \"output\": \"\xEF\xBF\xBD\", "
      "\"reference\": \"\"}\n"
      "{\"step\": 7, \"sample\": 1, \"input\": \"\", \"output\": \"\", \"reference\": \"\"}\n");
}

TEST_F(SamplesFile, ResumedFileMatchesUninterruptedRun) {
  const std::string full = lines({10, 20, 30});
  for (std::size_t size = lines({10}).size(); size <= full.size(); ++size) {
    put(full.substr(0, size));
    JsonlFile file(path_, 19, samples_lines());
    ASSERT_EQ(text(), lines({10})) << size;
    for (const int step : {20, 30}) file.write(at_step(step));
    file.write({.step = 40, .time = 1, .fields = {}});  // without samples
    file.sync();
    ASSERT_EQ(text(), full) << size;
  }
}

TEST_F(SamplesFile, NewRunTruncatesFile) {
  for (const std::string& earlier : {lines({1, 2}), lines({1, 2}) + "{\"st", std::string()}) {
    put(earlier);
    open(path_, 0);
    EXPECT_EQ(text(), "") << earlier;
  }
}

TEST_F(SamplesFile, RejectsAndPreservesForeignFile) {
  expect_rejected(5, lines({1}) + "{\"step\": 2}\n", 3);
  expect_rejected(5, lines({1}) + "mine", 3);
  for (const char* const content : {"mine", "mine\n", "{\"step\": 2, \"loss\": 1.0}\n"})
    for (const std::int64_t last_step : {0, 5}) expect_rejected(last_step, content, 1);
}

TEST_F(SamplesFile, ThrowsIfFileCannotBeWritten) {
  EXPECT_THROW(open(directory_.path() / "no" / "samples.jsonl", 0), Failure);
}

}  // namespace
}  // namespace longspan::samples_lines_test
