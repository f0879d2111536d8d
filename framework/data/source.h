// Where batches come from.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "framework/data/batch.h"

namespace longspan {

class Checkpoint;      // checkpoints/checkpoint.h
struct TrainingState;  // checkpoints/training_state.h

// Which rows of the global table of cursors a rank holds.
struct CursorRows {
  std::int64_t begin = 0;
  std::int64_t total = 0;
  bool shared = false;  // every data rank holds the same rows
};

// The batches of one data rank, one after another without end. What a batch holds is a function of
// the data, the options and the run's seed: the global batches are the same on every layout.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // Throws DataError for data that cannot be read.
  virtual Batch next() = 0;

  // Where it is: [rows, n] i64, this rank's rows of a table [total, n] that does not know the
  // number of ranks.
  virtual Tensor cursors() const = 0;
  virtual CursorRows cursor_rows() const = 0;
  // Goes on from there, exactly. Throws DataError for what is no place in the data.
  virtual void restore(const Tensor& cursors) = 0;
  // What is not as it was before the last `restore`, as a sentence; empty where nothing is.
  virtual std::string restore_warning() const { return ""; }

  // Of a source whose batches a model makes: what it must keep of them beside its cursors, which
  // are restored first.
  virtual void save_state(TrainingState&) const {}
  virtual void load_state(const Checkpoint&) {}
  // What it tells of how the last batch came about: by name, in metrics. Collective.
  virtual std::vector<std::pair<std::string, double>> metric_values() const { return {}; }
};

}  // namespace longspan
