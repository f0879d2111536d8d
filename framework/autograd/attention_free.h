// Attention-free mixing (AFT, Zhai et al. 2021), as a recorded op.
#pragma once

#include "framework/autograd/chunk_state.h"
#include "framework/autograd/variable.h"

namespace longspan {

// As in kernels/attention/attention_free.h.
struct AttentionFreeOptions {
  std::int64_t query_begin = 0;
  bool causal = true;
  std::int64_t window = 0;
  bool banded = false;
  Tensor max_lookback = {};
  Tensor hidden = {};
  // States [batch, 3, channels] before and after a chunk, in the accumulator dtype. Only causal,
  // without biases.
  ChunkBoundaries state = {};
};

// Returns the weighted means of the values, [batch, queries, channels]. key, value: [batch, keys,
// channels]; bias: accumulator dtype, undefined for window 0.
Variable attention_free(const Variable& key,
                        const Variable& value,
                        const Variable& bias,
                        const AttentionFreeOptions& options);

}  // namespace longspan
