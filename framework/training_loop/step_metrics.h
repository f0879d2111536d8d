// Metrics of a training step.
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

// Metrics that differ between runs of the same configuration.
struct StepTiming {
  double tokens_per_second = 0;
  // Fraction of the measured peak of all ranks; empty if the steps exceed it.
  std::optional<double> mfu = {};
  std::int64_t peak_memory_bytes = 0;  // of the rank that needs most
  // Means over the steps since the last record, as "step_seconds", "data_loading_seconds", ...
  StepTimes times = {};
};

struct StepMetrics {
  std::int64_t step = 0;    // counted from 1: the state after that many steps
  std::int64_t tokens = 0;  // since step 0
  double loss = 0;          // nats per token
  double learning_rate = 0;
  double gradient_norm = 0;                          // before clipping
  std::optional<double> loss_scale = {};             // with f16
  std::optional<double> reconstruction_error = {};   // of reversible streams, if measured
  std::optional<std::int64_t> skipped_batches = {};  // so far, if batches were skipped
  std::optional<StepTiming> timing = {};
  std::vector<LossTermValue> terms = {};  // of a loss with several terms, as "loss_NAME"
  // As "NAME_mean" and "NAME_max".
  std::vector<AuxiliaryMetricResult> watched = {};
  std::vector<std::pair<std::string, double>> metric_values =
      {};                                    // of the backbone's weights and the data
  std::vector<MetricValue> validation = {};  // of the task, as "validation_NAME"
};

// Returns the metrics of a step, without its timing, its validation and the metrics of weights and
// data.
StepMetrics metrics_of(const Trainer& trainer, const StepResult& result);

// Returns a metrics record with the current time, its fields in the order of metrics.jsonl.
MetricsRecord record_of(const StepMetrics& metrics);

// Returns where metrics.jsonl ends. Throws DataError if it is not a metrics file.
MetricsEnd end_of_metrics(const std::filesystem::path& path);

}  // namespace longspan
