// Gathers vocabulary-parallel logits on every tensor rank.
#pragma once

#include "framework/core/tensor.h"
#include "framework/distributed/communicator.h"
#include "framework/nn/parameters.h"

namespace longspan {

// Collective. Returns [rows, part.total] on the host, in vocabulary order. logits: [rows, 1,
// part.count] or [rows, part.count]. The result is f64, or f32 for f32 logits and one tensor rank.
// It may alias `logits`, so callers must not change it.
Tensor all_gather_logits(const Tensor& logits, const ShardRange& part, const Communicator& tensor);

}  // namespace longspan
