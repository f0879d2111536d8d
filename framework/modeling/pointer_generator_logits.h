// Pointer-generator scores: tokens are generated from a vocabulary or copied from a source.
#pragma once

#include "framework/core/tensor.h"
#include "framework/distributed/communicator.h"
#include "framework/nn/parameters.h"

namespace longspan {

// logits: [rows, time, this rank's shard], or with `only_last` [rows, 1, this rank's shard] of the
// last position. gate: [rows, time, 1]. attention: [rows, time, columns], whose first columns are
// those of `source` [rows, positions] i64.
struct PointerGeneratorLogits {
  Tensor logits;
  Tensor gate;
  Tensor attention;
  Tensor source;
  bool only_last = false;
};

// Collective over the tensor ranks. Returns log(g softmax(logits) + (1 - g) copied) with g =
// sigmoid(gate) (See et al. 2017). The result has the shape of the logits, in f64 on the host.
// `copied` of an id is the total attention to its source positions. -infinity where both are 0.
// Records no gradient.
Tensor pointer_generator_logits(const PointerGeneratorLogits& of,
                                const ShardRange& part,
                                const Communicator& tensor);

}  // namespace longspan
