// Everything a run is told, section by section.
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
  // Tokens of a sequence that the model is to read in training.
  std::int64_t longest() const;
  std::unique_ptr<Model> make_model(const ModelBuildOptions& setting) const;
};

// What the model of a run is built for.
ModelBuildOptions model_setting(const RunConfig& settings,
                                const DataSizes& ids,
                                const ProcessMesh& mesh,
                                const Device& device);

// The figures of the run's validations that say how good a model is.
std::vector<ValidationMetric> validation_metrics(const RunConfig& settings);
// What is wrong with checkpoint.best_metric, as a sentence; empty where nothing is.
std::string keep_best_problem(const RunConfig& settings);

// What is wrong with metrics.num_samples, as a sentence; empty where nothing is.
std::string samples_problem(const RunConfig& settings);

// What forbids to divide the data of a run so, as a sentence; empty where nothing does.
std::string batch_problem(const RunConfig& settings, std::int64_t data_ranks);
std::string minibatch_problem(const RunConfig& settings, std::int64_t data_ranks);
std::string segment_problem(const RunConfig& settings, std::int64_t context_ranks);
std::string accumulation_problem(const RunConfig& settings, std::optional<std::int64_t> data_ranks);
// Throws ConfigurationError with the first of them.
void require_divisible(const RunConfig& settings, const MeshShape& mesh);

}  // namespace longspan
