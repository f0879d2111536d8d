#include "framework/tracking/json_lines.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace longspan {
namespace {

MetricsRecord some_record() {
  return {.step = 7,
          .time = 1764163200.25,
          .fields = {{MetricGroup::training, "tokens", std::int64_t{640}},
                     {MetricGroup::training, "loss", 2.0},
                     {MetricGroup::time, "step_seconds", 0.5},
                     {MetricGroup::validation, "loss:a\"b,c.txt", std::nan("")}}};
}

TEST(JsonLines, MetricsNameTheirColumns) {
  EXPECT_EQ(json_line(some_record()),
            R"({"step": 7, "tokens": 640, "loss": 2.0, "step_seconds": 0.5, )"
            R"("validation_loss:a\"b,c.txt": null, "validation_loss:a\"b,c.txt_reason": "nan"})");
}

TEST(JsonLines, WandbTakesAFlatObjectAStep) {
  EXPECT_EQ(wandb_lines().lines(some_record()),
            R"({"_step": 7, "_timestamp": 1764163200.250, "training/tokens": 640, )"
            R"("training/loss": 2.0, "time/step_seconds": 0.5, )"
            R"("validation/loss:a\"b,c.txt": "NaN"})"
            "\n");
}

TEST(JsonLines, MlflowTakesAnObjectANumber) {
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

}  // namespace
}  // namespace longspan
