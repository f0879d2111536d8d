// What one step of one rank reads.
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// The target that the loss ignores: padding past the end of a stream.
inline constexpr std::int64_t ignored_target = -1;

struct Batch {
  Tensor tokens;   // [streams, segment] i64; 0 past the end of a stream
  Tensor targets;  // [streams, segment] i64: the token after each; ignored_target past the end
  std::int64_t first_stream = 0;  // the global index of row 0
  // The streams start again from their beginning (the first batch of a run included): what a model
  // carries from segment to segment must be emptied before this batch.
  bool epoch_start = false;
  std::int64_t position = 0;          // of the first column in each stream, in tokens
  std::int64_t epoch = 0;             // complete passes before this batch
  std::int64_t predicted_tokens = 0;  // targets that count, in this rank's rows
  std::int64_t predicted_bytes = 0;   // bytes of text of those targets: for bits per byte
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
