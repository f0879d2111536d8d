#include "framework/runs/samples_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "framework/core/error.h"
#include "tests/support/temporary_directory.h"

namespace longspan {
namespace {

class SamplesFiles : public ::testing::Test {
 protected:
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path_, std::ios::binary).rdbuf();
    return all.str();
  }
  void put(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }
  static std::string lines(std::initializer_list<std::int64_t> steps) {
    std::string all;
    for (const std::int64_t step : steps)
      for (std::size_t number = 0; number < 2; ++number)
        all += json_line(step, number, sample()) + "\n";
    return all;
  }
  static TextSample sample() { return {"read", "written", "wanted"}; }

  testing::TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_.path() / "samples.jsonl";
};

TEST_F(SamplesFiles, ALineIsJsonWhateverTheTextIs) {
  EXPECT_EQ(json_line(7, 1, {"a\"\n", "\xff", ""}),
            "{\"step\": 7, \"sample\": 1, \"input\": \"a\\\"\\n\", \"output\": \"\xEF\xBF\xBD\", "
            "\"reference\": \"\"}");
}

TEST_F(SamplesFiles, AResumedFileEqualsTheUnbrokenOneWhereverTheRunWasKilled) {
  const std::string unbroken = lines({10, 20, 30});
  for (std::size_t size = lines({10}).size(); size <= unbroken.size(); ++size) {
    put(unbroken.substr(0, size));
    SamplesFile file(path_, 19);
    ASSERT_EQ(text(), lines({10})) << size;
    const std::vector<TextSample> samples = {sample(), sample()};
    for (const int step : {20, 30}) file.write(step, samples);
    file.sync();
    ASSERT_EQ(text(), unbroken) << size;
  }
}

TEST_F(SamplesFiles, ANewRunBeginsAnEmptyFile) {
  put("mine");
  SamplesFile file(path_, 0);
  EXPECT_EQ(text(), "");
}

TEST_F(SamplesFiles, AFileOfSomethingElseIsLeftAlone) {
  put(lines({1}) + "{\"step\": 2}\n");
  EXPECT_THROW(SamplesFile(path_, 5), DataError);
  EXPECT_EQ(text(), lines({1}) + "{\"step\": 2}\n");
}

TEST_F(SamplesFiles, WhatCannotBeWrittenIsSaid) {
  EXPECT_THROW(SamplesFile(directory_.path() / "no" / "samples.jsonl", 0), Failure);
}

}  // namespace
}  // namespace longspan
