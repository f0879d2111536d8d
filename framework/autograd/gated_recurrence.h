// Gated linear recurrences and what surrounds them, as recorded ops.
#pragma once

#include <limits>
#include <optional>

#include "framework/autograd/chunk_state.h"
#include "framework/autograd/ring_attention.h"
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
  // Set if ranks share the positions: each has its own rows and all heads, and the states are equal
  // on all of them (state_passing.h).
  std::optional<SequenceShards> shares = {};
};

// Returns y [batch, time, heads, value_dim]. query, key: [batch, time, key_heads, key_dim], each
// shared by heads / key_heads successive heads; a and b: a head each; value: [batch, time, heads,
// value_dim]. Collective if ranks share the positions.
Variable gated_recurrence(const Variable& query,
                          const Variable& key,
                          const Variable& value,
                          const RecurrenceGates& gates,
                          const GatedRecurrenceOptions& options);

// Returns softplus(x) clamped to [least, most], in the accumulator dtype.
Variable step_sizes(const Variable& x,
                    double least = 0,
                    double most = std::numeric_limits<double>::infinity());

// Returns -e^log_rate softplus(x) or, if x is a step size, -e^log_rate x, in the accumulator dtype.
// x: [..., heads * n]; log_rate: [heads], accumulator dtype.
Variable decay_gates(const Variable& x, const Variable& log_rate, bool is_step = false);

// Returns factor x, in x's dtype. x: [..., heads, n]; factor: [..., heads] or, for all rows,
// [heads], accumulator dtype.
Variable scale_heads(const Variable& x, const Variable& factor);

// State space duality (Mamba-2; Dao and Gu 2024), with one decay rate for each head:
//   S_t = e^(-e^log_rate d_t) S_(t-1) + d_t B_t x_t^T,   y_t = S_t^T C_t + skip x_t
// x: [batch, time, heads, dim]; b, c: [batch, time, groups, state_dim], each shared by heads /
// groups successive heads; step d: [batch, time, heads] from step_sizes; log_rate, skip: [heads],
// accumulator dtype. Returns [batch, time, heads, dim]. options.scale is ignored.
struct StateSpaceInput {
  Variable x;
  Variable b;
  Variable c;
  Variable step;
};
Variable state_space(const StateSpaceInput& input,
                     const Variable& log_rate,
                     const Variable& skip,
                     const GatedRecurrenceOptions& options);

}  // namespace longspan
