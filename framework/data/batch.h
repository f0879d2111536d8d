// A batch: the input of one training step on one rank.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "framework/core/tensor.h"
#include "framework/data/recurrent_state.h"

namespace longspan {

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

}  // namespace longspan
