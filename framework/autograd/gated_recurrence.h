// Gated linear recurrences as a recorded op (kernels/attention/gated_recurrence.h).
#pragma once

#include "framework/autograd/chunk_state.h"
#include "framework/autograd/variable.h"

namespace longspan {

// Gates and corrections, as in GatedRecurrence; undefined ones are absent.
struct RecurrenceGates {
  Variable log_decay = {};
  Variable beta = {};
  Variable a = {};
  Variable b = {};
};

struct GatedRecurrenceOptions {
  double scale = 1;               // of the query
  Tensor document_position = {};  // [batch, time] i64; undefined: one document
  // States [batch, heads, key_dim, value_dim] before and after a chunk, in the accumulator dtype.
  ChunkBoundaries state = {};
};

// Returns y [batch, time, heads, value_dim]. query, key: [batch, time, heads, key_dim]; value:
// [batch, time, heads, value_dim].
Variable gated_recurrence(const Variable& query,
                          const Variable& key,
                          const Variable& value,
                          const RecurrenceGates& gates,
                          const GatedRecurrenceOptions& options);

}  // namespace longspan
