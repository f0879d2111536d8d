// A batch: the input of one training step on one rank. Also the recurrent state of its rows between
// batches, and the sources of batches.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/core/tensor.h"

namespace longspan {

// Recurrent state of the rows between batches.

struct RecurrentStateTensor {
  std::string name;  // "mems/3", or a RecurrentStateSpec::name
  Tensor tensor;     // [rows, n, ...]; of a RecurrentStateSpec: this rank's part
};

// Immutable value; empty if the model has no recurrent state or has read nothing yet. Ranks that
// shard the time of a row shard its Transformer-XL memory along axis 1 (shard_memory); the state of
// a stateful model has no positions. Checkpoints save it.
struct RecurrentState {
  std::vector<RecurrentStateTensor> tensors = {};
  std::optional<std::int64_t> all = {};  // n over the ranks; unset: this rank has all of it

  std::int64_t length() const {
    return tensors.empty() ? 0 : all.value_or(tensors.front().tensor.shape()[1]);
  }
};

// Returns rows [begin, end).
inline RecurrentState rows_of(const RecurrentState& carried, std::int64_t begin, std::int64_t end) {
  RecurrentState result = {.tensors = {}, .all = carried.all};
  for (const RecurrentStateTensor& piece : carried.tensors)
    result.tensors.push_back({piece.name, piece.tensor.slice(begin, end)});
  return result;
}

// Returns the selected rows, in that order.
inline RecurrentState select_rows(const RecurrentState& carried,
                                  const std::vector<std::int64_t>& rows) {
  RecurrentState result = {.tensors = {}, .all = carried.all};
  for (const RecurrentStateTensor& piece : carried.tensors) {
    const Tensor& from = piece.tensor;
    const Tensor chosen = Tensor::empty(from.shape().with(0, std::ssize(rows)),
                                        from.dtype(),
                                        from.device(),
                                        MemoryTag::recurrent_state);
    for (std::int64_t i = 0; i < std::ssize(rows); ++i) {
      const std::int64_t row = rows[static_cast<std::size_t>(i)];
      chosen.slice(i, i + 1).copy_from(from.slice(row, row + 1));
    }
    result.tensors.push_back({piece.name, chosen});
  }
  return result;
}

// Target value that the loss ignores: padding past the end of a sequence.
inline constexpr std::int64_t ignored_target = -1;

// Tensors by name, each [rows, ...], in host-readable memory. The source defines the names. A
// stream has `tokens` and `targets` [rows, time]. Pairs add `source` and `source_length`; labeled
// text has `label`. `earlier` [rows]: number of positions that precede a row's first one in its
// sequence. The row attends to no more of its recurrent state than that.
using Fields = std::map<std::string, Tensor, std::less<>>;

// Returns the field with this name. Throws Failure, which names the field, when it is missing.
const Tensor& field_of(const Fields& fields, std::string_view name);

// Returns rows [begin, end) of each field.
Fields rows_of(const Fields& fields, std::int64_t begin, std::int64_t end);

struct Batch {
  Fields fields;
  // Divisors of losses and units of throughput, for this rank's rows: predicted "tokens", the
  // "bytes" of their text, and "rows". Every rank has the same names.
  std::map<std::string, std::int64_t, std::less<>> counts;
  std::int64_t first_row = 0;  // the global index of row 0
  // The recurrent state must be reset before this batch: each row starts a new sequence.
  bool resets_state = false;
  // Recurrent state of the rows, where the source provides it. Otherwise it is the state after the
  // previous batch.
  std::optional<RecurrentState> carried = {};
  std::string place;  // for messages: "at token 512 of each stream in epoch 0"

  std::int64_t rows() const;
  const Tensor& field(std::string_view name) const { return field_of(fields, name); }
  // Returns 0 where the source does not provide this count.
  std::int64_t count(std::string_view name) const;
};

// Global streams that one data rank reads: stream s of `streams` is assigned to data rank s * ranks
// / streams.
struct StreamRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t count() const { return end - begin; }
};

// Returns the streams of a rank. Throws ConfigurationError, which names the option `key`, when
// `ranks` does not divide `streams`.
StreamRange streams_of_rank(std::int64_t streams, int rank, int ranks, const char* key);

// Sources of batches.

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
