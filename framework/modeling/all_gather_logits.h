// Logits of a vocabulary that tensor ranks share, whole on every rank.
#pragma once

#include "framework/core/tensor.h"
#include "framework/distributed/communicator.h"
#include "framework/nn/parameters.h"

namespace longspan {

// logits: [rows, 1, this rank's part] or [rows, this rank's part]. Result: [rows, part.total] on
// the host, in the order of the vocabulary: the same numbers in f64, or where a rank has them all
// in f32, as they are: perhaps the elements of `logits`, which are not to be changed. Collective.
Tensor all_gather_logits(const Tensor& logits, const ShardRange& part, const Communicator& tensor);

}  // namespace longspan
