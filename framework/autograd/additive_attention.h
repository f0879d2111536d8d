// Attention with additive scores (kernels/attention/additive.h).
#pragma once

#include <optional>

#include "framework/autograd/variable.h"
#include "framework/kernels/attention/attention.h"

namespace longspan {

// Keys that a query attends to.
struct AdditiveRules {
  bool causal = false;
  std::int64_t query_begin = 0;
  std::int64_t key_begin = 0;
  Tensor length = {};
  Tensor padding = {};
};

// query: [batch, time, heads, dim]; key, value: [batch, keys, heads, dim or value_dim]; weight:
// [heads, dim]. Returns [batch, time, heads, value_dim]. Memory is linear in queries plus keys.
Variable additive_attention(const Variable& query,
                            const Variable& key,
                            const Variable& value,
                            const Variable& weight,
                            const AdditiveRules& rules,
                            const std::optional<AttentionDropout>& dropout);

// Each query's scores also read the previous query's probabilities, through taps [heads, taps,
// dim]. The first query reads `before` [batch, heads, keys], a constant. Undefined `before`: zeros.
// Stores the probabilities. last: [batch, heads, keys], the probabilities of the last query.
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
