// Initializes a new run with the weights of another one (training.init_from.path).
#pragma once

#include "checkpoints/checkpoint.h"
#include "framework/config/run_config.h"
#include "framework/data/examples/label_set.h"
#include "framework/training_loop/log.h"
#include "framework/training_loop/training_run.h"

namespace longspan {

// The run to initialize.
struct InitFromContext {
  const RunConfig& settings;
  const TrainingRunText& text;
  const Tokenizer& tokenizer;
  LabelSet labels;  // empty if the task has no labels
  const Communicator& world;
  const Log& log;
  ReadProgress watch = {};
};

// Throws DataError if nothing exists at training.init_from.path. Collective.
void require_start(const ConfigPath& path, const Communicator& world);

// Fills a new model's weights, bit for bit, from the checkpoint at training.init_from.path, saved
// with any layout. Excluded weights, and rows missing from the checkpoint's vocabulary, keep their
// random initialization. An adapter of the checkpoint whose layer has none here is merged into the
// layer's weight. Logs which weights were loaded and which were left out. Warns if newly
// initialized weights are not trained. Does nothing if training.init_from.path is empty. Returns
// the import scalars (loading.h) that the new run retains. These are all of them if the tokens are
// equal, otherwise only the folder and positions. Collective. Throws ConfigurationError if the two
// models are incompatible. Throws DataError if the checkpoint is missing or damaged.
Scalars init_from(const InitFromContext& run, Model& model);

}  // namespace longspan
