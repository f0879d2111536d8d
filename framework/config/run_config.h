// Complete configuration of a run, by section.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/config/run_options.h"
#include "framework/data/data_options.h"
#include "framework/modeling/model.h"
#include "framework/nn/memory_options.h"
#include "framework/optim/precision_options.h"
#include "framework/tasks/task.h"
#include "framework/trainer/training_options.h"

namespace longspan {

struct RunConfig {
  RunOptions run;
  std::string task = "language_modeling";  // run.task
  std::string family;                      // model.family
  DataOptions data;
  TrainingOptions training;
  ParallelOptions parallel;
  MemoryOptions memory;
  PrecisionOptions precision;
  CheckpointOptions checkpoint;
  MetricsOptions metrics;
  BackboneFactory body;  // of the family

  const TaskSpec& task_kind() const { return longspan::task_kind(task); }
  // Returns the sequence length in training, in tokens.
  std::int64_t longest() const;
  std::unique_ptr<Model> make_model(const ModelBuildOptions& setting) const;
};

// Returns the settings for building the model of a run.
ModelBuildOptions model_setting(const RunConfig& settings,
                                const DataSizes& ids,
                                const ProcessMesh& mesh,
                                const Device& device);

// Returns the validation metrics that measure model quality.
std::vector<ValidationMetric> validation_metrics(const RunConfig& settings);
// Returns why checkpoint.best_metric is invalid; empty if it is valid.
std::string validate_best_metric(const RunConfig& settings);

// Returns why metrics.num_samples is invalid; empty if it is valid.
std::string validate_samples(const RunConfig& settings);

// Returns why the data of a run cannot be divided over the data ranks; empty if they can.
std::string validate_batch(const RunConfig& settings, std::int64_t data_ranks);
std::string validate_minibatch(const RunConfig& settings, std::int64_t data_ranks);
std::string validate_segment(const RunConfig& settings, std::int64_t context_ranks);
std::string validate_accumulation(const RunConfig& settings,
                                  std::optional<std::int64_t> data_ranks);
// Throws ConfigurationError with the first of these messages.
void require_divisible(const RunConfig& settings, const MeshShape& mesh);

}  // namespace longspan
