// What one step of one rank reads.
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

// The target that the loss ignores: padding past the end of a sequence.
inline constexpr std::int64_t ignored_target = -1;

// Tensors by name, each [rows, ...], in memory that the host reads. Which there are is the
// source's: `tokens` and `targets` [rows, time] of a stream; `source`, `source_length` beside them
// of pairs; `label` of a labelled text. `earlier` [rows]: how many positions stood before a row's
// first in what it is a part of: of what it carries, no more is seen.
using Fields = std::map<std::string, Tensor, std::less<>>;

// Throws Failure, which names the field, where there is none.
const Tensor& field_of(const Fields& fields, std::string_view name);

// The rows [begin, end) of each.
Fields rows_of(const Fields& fields, std::int64_t begin, std::int64_t end);

struct Batch {
  Fields fields;
  // What losses are divided by and rates are told in, of this rank's rows: "tokens" that are
  // predicted, "bytes" of their text, "rows". The same names on every rank.
  std::map<std::string, std::int64_t, std::less<>> counts;
  std::int64_t first_row = 0;  // the global index of row 0
  // What rows carry from batch to batch must be emptied before this one: each begins something new.
  bool resets_state = false;
  // What rows carry into it, where the source says so and not who has read the batch before.
  std::optional<RecurrentState> carried = {};
  std::string place;  // for messages: "at token 512 of each stream in epoch 0"

  std::int64_t rows() const;
  const Tensor& field(std::string_view name) const { return field_of(fields, name); }
  // 0 where the source does not count it.
  std::int64_t count(std::string_view name) const;
};

// The global streams that one data rank reads: stream s of `streams` belongs to data rank
// s * ranks / streams.
struct StreamRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t count() const { return end - begin; }
};

// Throws ConfigurationError when `ranks` does not divide `streams`; `key` is the option that says
// how many streams there are.
StreamRange streams_of_rank(std::int64_t streams, int rank, int ranks, const char* key);

}  // namespace longspan
