// Linear attention (Katharopoulos et al. 2020) as a recorded op. Time and memory are linear in the
// length, and the prefix is a state of constant size.
#pragma once

#include <optional>

#include "framework/autograd/ring_attention.h"
#include "framework/kernels/attention/linear_attention.h"

namespace longspan {

// As kernels/attention/linear_attention.h, with the initial and final state of the sequences.
struct LinearAttentionOptions {
  FeatureMap map = FeatureMap::identity;
  bool causal = true;
  Divisor divisor = Divisor::sum;
  double epsilon = 1e-6;
  // Divides each key feature by its sum over all keys, which gives a distribution over positions
  // (Shen et al. 2018). Requires causal = false and no divisor.
  bool softmax_keys = false;
  // [batch, heads, features, value_dim + 1] in the accumulator dtype, or undefined. `first`: state
  // before the first position, a constant. `last`: receives the state after the last position.
  Tensor first = {};
  Tensor last = {};
};

// query: [batch, time, heads, features]; key: [batch, keys, heads, features]; value: [batch, keys,
// heads, value_dim]; log_weight, decay: [batch, keys, heads] in the accumulator dtype, or
// undefined. Returns [batch, time, heads, value_dim]. Forward and backward materialize nothing of
// size time x keys or time x features x value_dim.
//
// With `shares` the rows are those of this rank (ring_attention.h), and each rank sums the state of
// its own ranges. Causal: gathers the states of all ranges, and each range starts from the states
// before it. Otherwise every query reads the sum over all ranks. Collective over shares.ranks,
// forward and backward. Throws Failure for a memory, and for `first` or `last` with shares.
Variable linear_attention(const Variable& query,
                          const Variable& key,
                          const Variable& value,
                          const Variable& log_weight,
                          const Variable& decay,
                          const LinearAttentionOptions& options,
                          const std::optional<SequenceShards>& shares = {});

}  // namespace longspan
