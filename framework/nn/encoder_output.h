// What else a stack reads besides its own sequence.
#pragma once

#include "framework/nn/attention/attention_op.h"
#include "framework/nn/sequence_shard.h"

namespace longspan {

// An encoder's output, with a length and a division over the ranks of its own. A value.
struct EncoderOutput {
  Variable rows = {};       // [batch, n, width]: of the positions that this rank holds
  SequenceShard time = {};  // of all its positions
  Tensor length = {};  // [batch] i64: positions of each batch row, the others are padding; same
                       // on all ranks that share time. Undefined: there is no padding

  // What sees all of it but padding.
  AttentionContext key_context() const {
    return {.mask = {.rules = masks::everything(), .key_length = length}, .distances = {}};
  }
};

}  // namespace longspan
