// Logits of a vocabulary that tensor ranks share, whole on every rank.
#pragma once

#include "framework/comm/communicator.h"
#include "framework/core/tensor.h"
#include "framework/nn/parameters.h"

namespace longspan {

// logits: [rows, 1, this rank's part] or [rows, this rank's part]. Result: [rows, part.total] f64
// on the host, in the order of the vocabulary. Collective.
Tensor whole_logits(const Tensor& logits, const Part& part, const Communicator& tensor);

}  // namespace longspan
