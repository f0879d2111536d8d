// Linear attention (Katharopoulos et al. 2020) as a recorded op: time and memory linear in the
// length, and a state of one size that says all of what came before.
#pragma once

#include <optional>

#include "framework/autograd/ring_attention.h"
#include "framework/kernels/attention/linear_attention.h"

namespace longspan {

// As kernels/attention/linear_attention.h, with the state that sequences begin with and end in.
struct LinearAttentionOptions {
  FeatureMap map = FeatureMap::identity;
  bool causal = true;
  Divisor divisor = Divisor::sum;
  double epsilon = 1e-6;
  // Each feature of the keys is divided by its sum over all of them, so that it is a distribution
  // of positions (Shen et al. 2018). Not causal, without a divisor.
  bool softmax_keys = false;
  // [batch, heads, features, value_dim + 1] in the accumulator dtype, or undefined: what came
  // before the first position, a constant; and where the state behind the last one is written.
  Tensor first = {};
  Tensor last = {};
};

// query: [batch, time, heads, features]; key: [batch, keys, heads, features]; value: [batch, keys,
// heads, value_dim]; log_weight, decay: [batch, keys, heads] in the accumulator dtype, or
// undefined. Result: [batch, time, heads, value_dim]. Nothing of the size of time x keys or time x
// features x value_dim is made, forward or backward.
//
// With `shares` the rows are those of this rank (ring_attention.h): each rank sums up the state of
// its own ranges; causal ranks bring all ranges' states together, and each begins with what came
// before its own, otherwise the sum over all ranks is every query's. Collective over shares.ranks,
// forward and backward. Throws Failure for a memory, and for `first` and `last` with shares.
Variable linear_attention(const Variable& query,
                          const Variable& key,
                          const Variable& value,
                          const Variable& log_weight,
                          const Variable& decay,
                          const LinearAttentionOptions& options,
                          const std::optional<SequenceShards>& shares = {});

}  // namespace longspan
