// Attention to every `stride`-th key with dense tiles, by transposition (Child et al. 2019, section
// 5.5).
#pragma once

#include <cstdint>
#include <optional>

#include "framework/autograd/variable.h"
#include "framework/kernels/attention/attention.h"

namespace longspan {

// Two sets of keys, disjoint for every head. Heads are numbered as in the call.
struct StridedKeys {
  // Key k is visible from position p under two conditions: p - k is a multiple of `stride`, and
  // `columns` lets floor(p / stride) attend to floor(k / stride). Requires causal columns.
  std::int64_t stride = 1;
  HeadMasks columns = masks::causal();
  // Additional visible keys: rules over positions. None: no keys.
  std::optional<HeadMasks> near = {};
};

// Softmax attention of a sequence to both sets at once. query: [batch, time, heads, dim]; key:
// [batch, time, key heads, dim]; value: [batch, time, key heads, value_dim]. Returns [batch, time,
// heads, value_dim]. Columns are computed over the view [batch, time / stride, stride * heads,
// dim], where they are adjacent. A length not divisible by the stride is padded at its end, where
// no earlier position attends. Dropout draws the same numbers, folded or not.
Variable strided_attention(const Variable& query,
                           const Variable& key,
                           const Variable& value,
                           const StridedKeys& keys,
                           const std::optional<AttentionDropout>& dropout = {});

}  // namespace longspan
