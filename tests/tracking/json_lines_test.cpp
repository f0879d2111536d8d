#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "framework/tracking/jsonl_file.h"

namespace longspan::json_lines_test {
namespace {

MetricsRecord some_record() {
  return {.step = 7,
          .time = 1764163200.25,
          .fields = {{MetricGroup::training, "tokens", std::int64_t{640}},
                     {MetricGroup::training, "loss", 2.0},
                     {MetricGroup::time, "step_seconds", 0.5},
                     {MetricGroup::validation, "loss:a\"b,c.txt", std::nan("")}}};
}

TEST(JsonLines, MetricsLineContainsEveryField) {
  EXPECT_EQ(json_line(some_record()),
            R"({"step": 7, "tokens": 640, "loss": 2.0, "step_seconds": 0.5, )"
            R"("validation_loss:a\"b,c.txt": null, "validation_loss:a\"b,c.txt_reason": "nan"})");
}

TEST(JsonLines, WandbLineIsOneFlatObjectPerStep) {
  EXPECT_EQ(wandb_lines().lines(some_record()),
            R"({"_step": 7, "_timestamp": 1764163200.250, "training/tokens": 640, )"
            R"("training/loss": 2.0, "time/step_seconds": 0.5, )"
            R"("validation/loss:a\"b,c.txt": "NaN"})"
            "\n");
}

TEST(JsonLines, MlflowLineIsOneObjectPerValue) {
  MetricsRecord record = some_record();
  record.fields.push_back(
      {MetricGroup::validation, "f1/PER SON", -std::numeric_limits<double>::infinity()});
  EXPECT_EQ(
      mlflow_lines().lines(record),
      R"({"key": "training/tokens", "value": 640, "timestamp": 1764163200250, "step": 7})"
      "\n"
      R"({"key": "training/loss", "value": 2.0, "timestamp": 1764163200250, "step": 7})"
      "\n"
      R"({"key": "time/step_seconds", "value": 0.5, "timestamp": 1764163200250, "step": 7})"
      "\n"
      R"({"key": "validation/loss_a_b_c.txt", "value": "NaN", "timestamp": 1764163200250, "step": 7})"
      "\n"
      R"({"key": "validation/f1/PER SON", "value": "-Infinity", "timestamp": 1764163200250, "step": 7})"
      "\n");
}

std::string mlflow_key_of(const std::string& name) {
  const std::string line = mlflow_lines().lines(
      {.step = 1, .time = 0.0, .fields = {{MetricGroup::validation, name, 1.0}}});
  const std::size_t begin = line.find(": \"") + 3;
  return line.substr(begin, line.find('"', begin) - begin);
}

// mlflow.utils.validation accepts only names that equal their posixpath.normpath.
TEST(JsonLines, MlflowKeysAreValidForAnyFile) {
  EXPECT_EQ(mlflow_key_of("loss:/data/a.txt"), "validation/loss_/data/a.txt");
  EXPECT_EQ(mlflow_key_of("loss:../b//c/./a.txt"), "validation/loss_../b/c/_/a.txt");
  EXPECT_EQ(mlflow_key_of("loss:b/../a.txt/"), "validation/loss_b/__/a.txt");
  EXPECT_EQ(mlflow_key_of("loss:\u00e9\u2013.txt"), "validation/loss__c3_a9_e2_80_93.txt");
  EXPECT_EQ(mlflow_key_of("loss:\xff.txt"), "validation/loss__ff.txt");
  const std::string folder(300, 'a');
  const std::string key = mlflow_key_of("loss:" + folder + "/one.txt");
  EXPECT_EQ(key.size(), 250U);
  EXPECT_EQ(key,
            "validation/loss_" + folder.substr(0, 24) + "_" + folder.substr(0, 201) + "/one.txt");
}

}  // namespace
}  // namespace longspan::json_lines_test
