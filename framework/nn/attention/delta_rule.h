// Mathematics of a delta rule layer between its projections (Yang et al. 2024, 2025; Kimi Team
// 2025; as in Qwen3-Next and Qwen3.5). Value head h reads key head h / (value heads / key heads).
#pragma once

#include <array>
#include <optional>

#include "framework/autograd/gated_recurrence.h"

namespace longspan {

// Returns silu of the short convolution of x [batch, time, heads, dim]. weight: [heads * dim,
// taps]; bias: [heads * dim], or undefined. Collective if ranks share the positions.
Variable convolve_heads(const Variable& x,
                        const Variable& weight,
                        const Variable& bias,
                        const Tensor& document_position,
                        const ChunkBoundaries& state,
                        const std::optional<SequenceShards>& shares = {});

// Weights, [channels, taps], and states, [batch, taps - 1, 1, channels], of the convolutions of
// queries, keys and values. Weights have the accumulator dtype.
struct DeltaRuleConvolution {
  Variable weight;
  ChunkBoundaries state = {};
};

struct DeltaRule {
  Variable query;  // projected: [batch, time, key_heads, key_dim]
  Variable key;    // as query
  Variable value;  // projected: [batch, time, value_heads, value_dim]
  // log_decay: [batch, time, value_heads], or [batch, time, value_heads, key_dim]; may be
  // undefined. beta: [batch, time, value_heads]. Both in the accumulator dtype.
  RecurrenceGates gates;
  std::array<DeltaRuleConvolution, 3> convolutions;
  Tensor document_position = {};  // as GatedRecurrenceOptions
  ChunkBoundaries state = {};     // [batch, value_heads, key_dim, value_dim]
  // Set if ranks share the positions: each has its own rows and all heads.
  std::optional<SequenceShards> shares = {};
};

// Returns y [batch, time, value_heads, value_dim]: the recurrence over q = l2(silu(conv(query))), k
// = l2(silu(conv(key))) and v = silu(conv(value)), with y = S^T q / sqrt(key_dim) and
// l2(x) = x / sqrt(|x|^2 + 1e-6). Throws Failure unless key_heads divides value_heads.
Variable delta_rule(const DeltaRule& layer);

// Returns gain * y / sqrt(mean of y^2 + epsilon) by head, times silu(gate). y, gate: [batch, time,
// heads, dim]; gain: [dim].
Variable gated_head_norm(const Variable& y,
                         const Variable& gain,
                         double epsilon,
                         const Variable& gate);

}  // namespace longspan
