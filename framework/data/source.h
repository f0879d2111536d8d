// Sources of batches.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "framework/data/batch.h"

namespace longspan {

class Checkpoint;      // checkpoints/checkpoint.h
struct TrainingState;  // checkpoints/training_state.h

// Rows of the global cursor table that a rank holds.
struct CursorRows {
  std::int64_t begin = 0;
  std::int64_t total = 0;
  bool shared = false;  // every data rank has the same rows
};

// Endless batches of one data rank. A batch depends only on the data, the options and the run's
// seed, so the global batches are equal on every layout.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // Returns the next batch. Throws DataError for unreadable data.
  virtual Batch next() = 0;

  // Returns the position: [rows, n] i64, this rank's rows of a table [total, n] that does not
  // depend on the number of ranks.
  virtual Tensor cursors() const = 0;
  virtual CursorRows cursor_rows() const = 0;
  // Resumes exactly at these cursors. Throws DataError for cursors that are no position in the
  // data.
  virtual void restore(const Tensor& cursors) = 0;
  // Returns a message about changes since the restored state was saved, or "".
  virtual std::string restore_warning() const { return ""; }

  // State of a source whose batches a model generates, saved in addition to the cursors, which are
  // restored first.
  virtual void save_state(TrainingState&) const {}
  virtual void load_state(const Checkpoint&) {}
  // Metrics of how the last batch was generated, by name. Collective.
  virtual std::vector<std::pair<std::string, double>> metric_values() const { return {}; }
};

}  // namespace longspan
