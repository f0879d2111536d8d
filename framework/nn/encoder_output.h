// Encoder output that a decoder stack attends to.
#pragma once

#include "framework/nn/attention/attention_op.h"
#include "framework/nn/sequence_shard.h"

namespace longspan {

// Encoder output with its own length and sharding over the ranks. Value type.
struct EncoderOutput {
  Variable rows = {};       // [batch, n, width]: positions of this rank
  SequenceShard time = {};  // layout of all positions
  // [batch] i64: number of positions of each batch row that are not padding. Identical on all ranks
  // that share time. Undefined: no padding.
  Tensor length = {};

  // Returns a context that masks nothing but padding.
  AttentionContext key_context() const {
    return {.mask = {.rules = masks::everything(), .key_length = length}, .distances = {}};
  }
};

}  // namespace longspan
