// Attention with additive scores (kernels/attention/additive.h).
#pragma once

#include <optional>

#include "framework/autograd/variable.h"
#include "framework/kernels/attention/attention.h"

namespace longspan {

// Which keys a query sees.
struct AdditiveRules {
  bool causal = false;
  std::int64_t query_begin = 0;
  std::int64_t key_begin = 0;
  Tensor length = {};
  Tensor padding = {};
};

// query: [batch, time, heads, dim]; key, value: [batch, keys, heads, dim or value_dim]; weight:
// [heads, dim]. Result: [batch, time, heads, value_dim]. Memory grows with queries and keys, not
// with their pairs.
Variable additive_attention(const Variable& query,
                            const Variable& key,
                            const Variable& value,
                            const Variable& weight,
                            const AdditiveRules& rules,
                            const std::optional<AttentionDropout>& dropout);

// Each query hears where the one before it has looked, through taps [heads, taps, dim], and the
// first hears `before` [batch, heads, keys] (a constant; undefined: nothing). Keeps the
// probabilities. last: [batch, heads, keys], where the last query has looked.
struct LocationAwareAttention {
  Variable out;
  Tensor last;
};
LocationAwareAttention location_aware_attention(const Variable& query,
                                                const Variable& key,
                                                const Variable& value,
                                                const Variable& weight,
                                                const Variable& taps,
                                                const AdditiveRules& rules,
                                                const Tensor& before,
                                                const std::optional<AttentionDropout>& dropout);

}  // namespace longspan
