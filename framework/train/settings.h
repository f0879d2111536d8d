// Everything a run is told, section by section.
#pragma once

#include <string>

#include "framework/data/data_options.h"
#include "framework/nn/memory_options.h"
#include "framework/train/run_options.h"
#include "framework/train/training_options.h"
#include "models/registry.h"

namespace longspan {

struct Settings {
  RunOptions run;
  std::string family;  // model.family
  DataOptions data;
  TrainingOptions training;
  ParallelOptions parallel;
  MemoryOptions memory;
  PrecisionOptions precision;
  CheckpointOptions checkpoint;
  MetricsOptions metrics;
  ModelFactory make_model;
};

// What the model of a run is built for.
ModelSetting model_setting(const Settings& settings,
                           std::int64_t vocabulary,
                           const ProcessMesh& mesh,
                           const Device& device);

// Throws ConfigurationError when training.accumulation does not divide the streams of a data rank.
void require_parts(const Settings& settings, const MeshShape& mesh);

}  // namespace longspan
