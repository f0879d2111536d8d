// Gated linear recurrences and what surrounds them, as recorded ops.
#pragma once

#include "framework/autograd/chunk_state.h"
#include "framework/autograd/variable.h"

namespace longspan {

// Gates and corrections, as in kernels/attention/gated_recurrence.h; undefined ones are absent.
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

// Returns act(convolution of x) [batch, time, channels], as in kernels/short_convolution.h. x:
// [batch, time, channels]; weight: [channels, taps] and bias: [channels] (may be undefined),
// accumulator dtype. Continues from the last taps - 1 rows of x before a chunk, [batch, taps - 1,
// 1, channels].
Variable short_convolution(const Variable& x,
                           const Variable& weight,
                           const Variable& bias,
                           const Tensor& document_position,
                           bool silu,
                           const ChunkBoundaries& state = {});

// Returns -e^log_rate softplus(x) in the accumulator dtype. x: [..., heads * n]; log_rate: [heads],
// accumulator dtype.
Variable decay_gates(const Variable& x, const Variable& log_rate);

}  // namespace longspan
