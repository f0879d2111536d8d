#include "framework/report/run_samples.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_directory.h"

namespace longspan::run_samples_test {
namespace {

class RunSamples : public ::testing::Test {
 protected:
  std::vector<SamplesOfStep> read(const std::string& text) {
    const std::filesystem::path path = directory_.path() / "samples.jsonl";
    std::ofstream(path, std::ios::binary) << text;
    return read_run_samples(path);
  }
  static std::string line(std::int64_t step, const std::string& output) {
    return fmt::format(
        "{{\"step\": {}, \"sample\": 0, \"input\": \"in\", \"output\": \"{}\", \"reference\": "
        "\"so\"}}\n",
        step,
        output);
  }
  static std::vector<std::int64_t> steps(const std::vector<SamplesOfStep>& samples) {
    std::vector<std::int64_t> found;
    for (const SamplesOfStep& one : samples) found.push_back(one.step);
    return found;
  }

  testing::TemporaryDirectory directory_;
};

TEST_F(RunSamples, GroupsSamplesByStep) {
  const auto samples = read(line(10, "a") + line(10, "b") + "hello\n" + line(20, "c") + "{\"st");
  ASSERT_EQ(steps(samples), (std::vector<std::int64_t>{10, 20}));
  ASSERT_EQ(samples[0].texts.size(), 2U);
  EXPECT_EQ(samples[0].texts[1].output, "b");
  EXPECT_EQ(samples[1].texts[0].input, "in");
  EXPECT_EQ(samples[1].texts[0].reference, "so");
  EXPECT_TRUE(read_run_samples(directory_.path() / "nothing").empty());
  EXPECT_TRUE(read_run_samples("/dev/zero").empty());
}

TEST_F(RunSamples, KeepsFirstAndLastStep) {
  std::string text;
  for (int step = 1; step <= 3000; ++step) text += line(step, "x");
  auto samples = read(text);
  EXPECT_LT(samples.size(), 500U);
  EXPECT_GT(samples.size(), 200U);
  EXPECT_EQ(samples.front().step, 1);
  EXPECT_EQ(samples.back().step, 3000);
  downsample_samples(samples, 100);
  EXPECT_LE(samples.size(), 20U);
  EXPECT_EQ(samples.front().step, 1);
  EXPECT_EQ(samples.back().step, 3000);
}

TEST_F(RunSamples, TruncatesLongTextsBetweenCharacters) {
  std::string many;
  for (int i = 0; i < 3000; ++i) many += "ä";
  const auto samples = read(line(1, "x" + many));
  const std::string& output = samples.front().texts.front().output;
  EXPECT_LT(output.size(), 4100U);
  EXPECT_TRUE(output.ends_with("ä…"));
}

TEST_F(RunSamples, EmbedsEachTextOnceAndEscaped) {
  const std::string data = samples_data(read(line(1, "</script><b>") + line(2, "</script><b>")));
  EXPECT_EQ(data.find('<'), std::string::npos);
  const auto object = nlohmann::json::parse(data);
  EXPECT_EQ(object["strings"], (std::vector<std::string>{"in", "</script><b>", "so"}));
  EXPECT_EQ(object["steps"][1]["step"], 2);
  EXPECT_EQ(object["steps"][1]["texts"], (std::vector<std::vector<int>>{{0, 1, 2}}));
}

}  // namespace
}  // namespace longspan::run_samples_test
