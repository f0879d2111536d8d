#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <random>

#include "framework/report/tailed_metrics.h"

namespace longspan::metric_line_test {
namespace {

TEST(MetricLineReader, ReturnsFieldsInOrderWithKind) {
  MetricLineReader reader;
  ASSERT_TRUE(reader.read(
      R"({"step": 12, "loss": null, "loss_reason": "nan", "rate": -1.5e-3,"bytes":4096})"));
  EXPECT_EQ(reader.step(), 12);
  const auto fields = reader.fields();
  ASSERT_EQ(fields.size(), 5U);
  EXPECT_EQ(fields[1].name, "loss");
  EXPECT_EQ(fields[1].kind, LineField::Kind::none);
  EXPECT_EQ(fields[2].kind, LineField::Kind::text);
  EXPECT_EQ(fields[2].text, "nan");
  EXPECT_EQ(fields[3].number, -1.5e-3);
  EXPECT_EQ(fields[4].name, "bytes");
  EXPECT_EQ(fields[4].number, 4096);
}

TEST(MetricLineReader, ReadsEscapesAndSkipsNestedValues) {
  MetricLineReader reader;
  ASSERT_TRUE(reader.read(R"({"step": 3, "validation_loss:a\"b\u00e9": 2.5, "sample": "a\n<b>"})"));
  EXPECT_EQ(reader.step(), 3);
  bool has_name = false, has_text = false;
  for (const LineField& field : reader.fields()) {
    has_name |= field.name == "validation_loss:a\"b\u00e9" && field.number == 2.5;
    has_text |= field.name == "sample" && field.text == "a\n<b>";
  }
  EXPECT_TRUE(has_name);
  EXPECT_TRUE(has_text);
  ASSERT_TRUE(reader.read(R"({"step": 4, "more": {"a": [1, 2]}, "flag": true, "loss": 1})"));
  EXPECT_EQ(reader.step(), 4);
  ASSERT_EQ(reader.fields().size(), 2U);
}

TEST(MetricLineReader, RejectsInvalidLines) {
  MetricLineReader reader;
  for (const char* const line : {"",
                                 "{",
                                 "{}",
                                 "[]",
                                 "step",
                                 R"({"step": 1.5})",
                                 R"({"step": -1})",
                                 R"({"step": "1"})",
                                 R"({"loss": 1})",
                                 R"({"step": 1, "loss": NaN})",
                                 R"({"step": 1, "loss": inf})",
                                 R"({"step": 1,})",
                                 R"({"step": 1} x)",
                                 R"({"step": 1, "loss": 2.0.1})",
                                 R"({"step": 1e300})",
                                 R"({"step" 1})",
                                 R"({"step": 1, "a": "b)"})
    EXPECT_FALSE(reader.read(line)) << line;
}

TEST(MetricLineReader, ParsesNumbersExactly) {
  std::mt19937_64 bits(5);
  MetricLineReader reader;
  char line[200];
  for (int i = 0; i < 2000; ++i) {
    const double value =
        std::ldexp(static_cast<double>(bits() >> 11), static_cast<int>(bits() % 200) - 150);
    std::snprintf(line, sizeof line, "{\"step\": 1, \"loss\": %.17g}", value);
    ASSERT_TRUE(reader.read(line)) << line;
    ASSERT_EQ(reader.fields()[1].number, value) << line;
  }
}

}  // namespace
}  // namespace longspan::metric_line_test
