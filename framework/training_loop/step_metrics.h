// What a run measures of a step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/metrics/metric_value.h"
#include "framework/tracking/jsonl_file.h"
#include "framework/trainer/trainer.h"
#include "framework/training_loop/step_meter.h"

namespace longspan {

// What differs from run to run.
struct StepTiming {
  double tokens_per_second = 0;
  // Of the measured peak of all ranks; none where the steps exceed it.
  std::optional<double> model_flops_utilisation = {};
  std::int64_t peak_memory_bytes = 0;  // of the rank that needs most
  // Of a step, as a mean of those since the record before; as "step_seconds", "reading_seconds",
  // ...
  StepTimes times = {};
};

struct StepMetrics {
  std::int64_t step = 0;    // counted from 1: the state after that many steps
  std::int64_t tokens = 0;  // since step 0
  double loss = 0;          // nats a token
  double learning_rate = 0;
  double gradient_norm = 0;                          // before clipping
  std::optional<double> loss_scale = {};             // with f16
  std::optional<double> reconstruction_error = {};   // of reversible streams, where it was measured
  std::optional<std::int64_t> skipped_batches = {};  // so far, where data were passed over
  std::optional<StepTiming> timing = {};
  std::vector<LossTermValue> terms = {};  // where the loss has several, as "loss_NAME"
  // As "NAME_mean" and "NAME_largest".
  std::vector<AuxiliaryMetricResult> watched = {};
  std::vector<std::pair<std::string, double>> metric_values =
      {};                                    // of the body's weights, and of data
  std::vector<MetricValue> validation = {};  // of the task, as "validation_NAME"
};

// What a step has come to, without its timing, its validation and the figures of weights and data.
StepMetrics metrics_of(const Trainer& trainer, const StepResult& result);

// The same as a record of now. The order of its fields is that of metrics.jsonl.
MetricsRecord record_of(const StepMetrics& metrics);

// How far metrics.jsonl goes. Throws DataError where it is something else.
MetricsEnd end_of_metrics(const std::filesystem::path& path);

}  // namespace longspan
