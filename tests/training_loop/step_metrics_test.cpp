#include "framework/training_loop/step_metrics.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "framework/core/error.h"
#include "framework/tracking/jsonl_file.h"

namespace longspan::step_metrics_test {
namespace {

namespace fs = std::filesystem;

class MetricsFileTest : public ::testing::Test {
 protected:
  MetricsFileTest() {
    std::string name = (fs::temp_directory_path() / "longspan-metrics-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
    path_ = directory_ / "metrics.jsonl";
  }
  ~MetricsFileTest() override { fs::remove_all(directory_); }

  std::string text() const {
    std::ifstream stream(path_, std::ios::binary);
    std::ostringstream all;
    all << stream.rdbuf();
    return all.str();
  }
  void put(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }

  fs::path directory_;
  fs::path path_;
};

StepMetrics at_step(std::int64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.tokens = 100 * step;
  metrics.loss = 1.0 / static_cast<double>(step);
  metrics.learning_rate = 1e-3;
  metrics.gradient_norm = std::sqrt(static_cast<double>(step));
  return metrics;
}

std::string json_line(const StepMetrics& metrics) { return json_line(record_of(metrics)); }

// Writes metrics.jsonl.
class MetricsFile : public JsonlFile {
 public:
  MetricsFile(const fs::path& path, std::int64_t last_step)
      : JsonlFile(path, last_step, metrics_lines()) {}
  void write(const StepMetrics& metrics) { JsonlFile::write(record_of(metrics)); }
};

std::string lines(std::initializer_list<std::int64_t> steps) {
  std::string text;
  for (const std::int64_t step : steps) text += json_line(at_step(step)) + "\n";
  return text;
}

TEST(StepMetrics, JsonLineHasDocumentedFields) {
  StepMetrics metrics{.step = 5, .tokens = 640, .loss = 2, .learning_rate = 1e-5};
  metrics.gradient_norm = 0.5;
  EXPECT_EQ(json_line(metrics),
            R"({"step": 5, "tokens": 640, "loss": 2.0, "learning_rate": 1e-05, )"
            R"("grad_norm": 0.5})");
  metrics.loss_scale = 65536;
  metrics.timing = StepTiming{1000, 0.625, 4096, {2, 0.25, 0.5, 0.125, 1}};
  metrics.validation = {{"loss", 1.5, "nats per token"},
                        {"bits_per_byte", 2.25, "bits per byte"},
                        {.name = "unk_tokens", .value = 7, .is_count = true}};
  EXPECT_EQ(
      json_line(metrics),
      R"({"step": 5, "tokens": 640, "loss": 2.0, "learning_rate": 1e-05, )"
      R"("grad_norm": 0.5, "loss_scale": 65536.0, "tokens_per_second": 1000.0, )"
      R"("mfu": 0.625, "peak_memory_bytes": 4096, )"
      R"("step_seconds": 2.0, "data_loading_seconds": 0.25, "communication_wait_seconds": 0.5, )"
      R"("checkpoint_seconds": 0.125, "validation_seconds": 1.0, )"
      R"("validation_loss": 1.5, "validation_bits_per_byte": 2.25, "validation_unk_tokens": 7})");
}

TEST(StepMeter, OmitsUtilizationAbovePeak) {
  StepMeter meter;
  meter.add({.seconds = 2, .tokens = 64, .flops = 1e9});
  EXPECT_EQ(meter.utilization(1e9), 0.5);
  EXPECT_EQ(meter.utilization(5e8), 1);
  EXPECT_FALSE(meter.utilization(4.9e8));
  EXPECT_FALSE(meter.utilization(0));
  StepMetrics metrics{.step = 5, .tokens = 640, .loss = 2, .learning_rate = 1e-5};
  metrics.timing = StepTiming{.tokens_per_second = 32, .mfu = meter.utilization(1e6)};
  EXPECT_EQ(json_line(metrics).find("utilisation"), std::string::npos);
  metrics.timing->mfu = meter.utilization(1e9);
  EXPECT_NE(json_line(metrics).find(R"("mfu": 0.5)"), std::string::npos);
}

TEST(StepMetrics, NamesLossTermsIfThereAreSeveral) {
  StepMetrics metrics{.step = 5, .tokens = 640, .loss = 2, .learning_rate = 1e-5};
  metrics.terms = {{"loss", 2}};
  EXPECT_EQ(json_line(metrics).find("loss_"), std::string::npos);
  metrics.terms = {{"tags", 0.5}, {"length", 1.5}};
  EXPECT_EQ(json_line(metrics),
            R"({"step": 5, "tokens": 640, "loss": 2.0, "loss_tags": 0.5, "loss_length": 1.5, )"
            R"("learning_rate": 1e-05, "grad_norm": 0.0})");
}

TEST(StepMetrics, NumbersRoundTripBitForBit) {
  std::mt19937_64 bits(3);
  for (int i = 0; i < 5000; ++i) {
    const double value = i == 0 ? -0.0 : std::bit_cast<double>(bits());
    if (!std::isfinite(value)) continue;
    StepMetrics metrics = at_step(1);
    metrics.loss = value;
    const auto object = nlohmann::json::parse(json_line(metrics));
    ASSERT_EQ(std::bit_cast<std::uint64_t>(object["loss"].get<double>()),
              std::bit_cast<std::uint64_t>(value));
  }
}

TEST(StepMetrics, WritesNonFiniteValuesAsNullWithReason) {
  StepMetrics metrics = at_step(1);
  metrics.loss = std::nan("");
  metrics.gradient_norm = -std::numeric_limits<double>::infinity();
  const auto object = nlohmann::json::parse(json_line(metrics));
  EXPECT_TRUE(object["loss"].is_null());
  EXPECT_EQ(object["loss_reason"], "nan");
  EXPECT_TRUE(object["grad_norm"].is_null());
  EXPECT_EQ(object["grad_norm_reason"], "-inf");
}

TEST_F(MetricsFileTest, NewRunTruncatesFile) {
  put(lines({1, 2}));
  MetricsFile file(path_, 0);
  EXPECT_EQ(text(), "");
  file.write(at_step(1));
  file.write(at_step(2));
  file.sync();
  EXPECT_EQ(text(), lines({1, 2}));
}

TEST_F(MetricsFileTest, ResumedFileMatchesUninterruptedRun) {
  const std::string full = lines({10, 20, 30, 40, 50, 60});
  const std::size_t needed = lines({10, 20, 30}).size();
  // The run was killed at any byte after the checkpoint of step 35.
  for (std::size_t size = needed; size <= full.size(); ++size) {
    put(full.substr(0, size));
    MetricsFile file(path_, 35);
    ASSERT_EQ(text(), lines({10, 20, 30})) << size;
    for (const int step : {40, 50, 60}) file.write(at_step(step));
    ASSERT_EQ(text(), full) << size;
  }
}

TEST_F(MetricsFileTest, KeepsLineAtCheckpointStep) {
  put(lines({10, 20, 30}));
  MetricsFile file(path_, 20);
  EXPECT_EQ(text(), lines({10, 20}));
}

TEST_F(MetricsFileTest, CreatesMissingFile) {
  MetricsFile file(path_, 7);
  file.write(at_step(8));
  EXPECT_EQ(text(), lines({8}));
}

TEST_F(MetricsFileTest, RejectsAndPreservesForeignFile) {
  const std::string other = lines({1}) + "{\"loss\": 2}\n" + lines({3});
  put(other);
  try {
    MetricsFile file(path_, 3);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.what(), path_.string() + ":2: expected a line of metrics; move the file away");
  }
  EXPECT_EQ(text(), other);
}

TEST_F(MetricsFileTest, ReadsLastStepFromLastCompleteLine) {
  EXPECT_EQ(end_of_metrics(path_).step, 0);
  put("");
  EXPECT_EQ(end_of_metrics(path_).step, 0);
  const std::string whole = lines({10, 20});
  const std::string next = lines({30});
  for (std::size_t size = 0; size < next.size(); ++size) {
    put(whole + next.substr(0, size));
    EXPECT_EQ(end_of_metrics(path_).step, 20) << size;
  }
  put(whole + "{\"stop");
  EXPECT_THROW(end_of_metrics(path_), DataError);
  put("mine\n");
  EXPECT_THROW(end_of_metrics(path_), DataError);
}

TEST_F(MetricsFileTest, ReportsLastStepsWithFiniteLoss) {
  put(lines({10, 20}) + json_line({.step = 30, .loss = std::numeric_limits<double>::quiet_NaN()}) +
      "\n");
  EXPECT_EQ(end_of_metrics(path_).step, 30);
  EXPECT_EQ(end_of_metrics(path_).with_loss, 20);
  EXPECT_EQ(end_of_metrics(path_).with_loss_before, 10);
  // A step with an infinite gradient does not count either.
  put(lines({10, 20}) +
      json_line({.step = 30, .gradient_norm = std::numeric_limits<double>::infinity()}) + "\n");
  EXPECT_EQ(end_of_metrics(path_).step, 30);
  EXPECT_EQ(end_of_metrics(path_).with_loss, 20);
}

// Steps 10 to 40; the run was killed after the checkpoint of step 25.
TEST_F(MetricsFileTest, ResumedExportsMatchUninterruptedFiles) {
  for (const auto& kind : {wandb_lines(), mlflow_lines()}) {
    const auto records = [&](std::initializer_list<std::int64_t> steps) {
      std::string text;
      for (const std::int64_t step : steps) {
        MetricsRecord record = record_of(at_step(step));
        record.time = 5;
        text += kind.lines(record);
      }
      return text;
    };
    const std::string full = records({10, 20, 30, 40});
    const std::string expected = records({10, 20});
    for (std::size_t size = expected.size(); size <= full.size(); size += 3) {
      put(full.substr(0, size));
      const JsonlFile file(path_, 25, kind);
      ASSERT_EQ(text(), expected) << size;
    }
  }
}

TEST_F(MetricsFileTest, ThrowsIfFileCannotBeOpened) {
  EXPECT_THROW(MetricsFile(directory_ / "no" / "metrics.jsonl", 0), Failure);
}

TEST_F(MetricsFileTest, ThrowsIfDiskIsFull) {
  MetricsFile file("/dev/full", 0);
  EXPECT_THROW(file.write(at_step(1)), Failure);
}

}  // namespace
}  // namespace longspan::step_metrics_test
