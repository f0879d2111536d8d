// Attention to every `stride`-th key, in tiles that are full (the transposition of Child et al.
// 2019, section 5.5).
#pragma once

#include <cstdint>
#include <optional>

#include "framework/autograd/variable.h"
#include "framework/kernels/attention/attention.h"

namespace longspan {

// Two sets of keys that have none in common for any head; heads count as the call's.
struct StridedKeys {
  // Key k is seen from position p where p - k is a multiple of `stride` and `columns` lets floor(p
  // / stride) see floor(k / stride). The columns must be causal.
  std::int64_t stride = 1;
  HeadMasks columns = masks::causal();
  // What is seen besides: rules over positions. None: nothing.
  std::optional<HeadMasks> near = {};
};

// Softmax attention of a sequence to both sets at once. query: [batch, time, heads, dim]; key:
// [batch, time, key heads, dim]; value: [batch, time, key heads, value_dim]; result: [batch, time,
// heads, value_dim]. The columns are computed over the view
// [batch, time / stride, stride * heads, dim], where they are neighbours; a length that stride does
// not divide is padded at its end, where no earlier position looks. Dropout's elements are those of
// the sequence, folded or not.
Variable strided_attention(const Variable& query,
                           const Variable& key,
                           const Variable& value,
                           const StridedKeys& keys,
                           const std::optional<AttentionDropout>& dropout = {});

}  // namespace longspan
