// Scores of words that are said by a vocabulary or copied from a source.
#pragma once

#include "framework/core/tensor.h"
#include "framework/distributed/communicator.h"
#include "framework/nn/parameters.h"

namespace longspan {

// logits: [rows, time, this rank's part], or with `only_last` [rows, 1, this rank's part] of the
// last of `time`. gate: [rows, time, 1]. attention: [rows, time, columns], of which those of
// `source` [rows, positions] i64 come first.
struct PointerGeneratorLogits {
  Tensor logits;
  Tensor gate;
  Tensor attention;
  Tensor source;
  bool only_last = false;
};

// log(g softmax(logits) + (1 - g) copied) with g = logistic(gate), where `copied` of an id is the
// attention to the positions that have it: of the logits' shape, in f64 on the host. -infinity
// where neither gives an id. Collective over the tensor ranks. Nothing is recorded.
Tensor pointer_generator_logits(const PointerGeneratorLogits& of,
                                const ShardRange& part,
                                const Communicator& tensor);

}  // namespace longspan
