// A new run that begins with the weights of another one (training.init_from.path).
#pragma once

#include "checkpoints/checkpoint.h"
#include "framework/config/run_config.h"
#include "framework/data/examples/label_set.h"
#include "framework/training_loop/log.h"
#include "framework/training_loop/training_run.h"

namespace longspan {

// The run that asks.
struct InitFromContext {
  const RunConfig& settings;
  const TrainingRunText& text;
  const Tokenizer& tokenizer;
  LabelSet labels;  // none where the task has none
  const Communicator& world;
  const Log& log;
  ReadProgress watch = {};
};

// Collective. Throws DataError where there is nothing at the path of training.init_from.path.
void require_start(const ConfigPath& path, const Communicator& world);

// Collective. Fills a new model's weights, to the bit, from the checkpoint that
// training.init_from.path means, on any layout; those that it is not to give, and rows that its
// vocabulary lacks, stay as they were drawn. An adapter there of a layer that has none here is
// merged into the layer's weight. Says in the log what was taken and what was left out, and warns
// where what begins anew is not trained. Nothing where training.init_from.path is empty. Returns
// what the new run retains of an import (loading.h): all where the tokens are the same, else its
// folder and positions. Throws ConfigurationError where the two models do not fit, DataError where
// there is no such checkpoint or it is damaged.
Scalars init_from(const InitFromContext& run, Model& model);

}  // namespace longspan
