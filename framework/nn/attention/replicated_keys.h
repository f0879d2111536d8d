// Attention of shared sequences over keys that every context rank has.
#pragma once

#include "framework/nn/attention/attention_op.h"

namespace longspan {

// Where this rank's keys stand in the whole sequence.
Ranges key_positions(const ProjectedQKV& input);

// Softmax attention of this rank's queries over all of `key` and `value`, [batch, keys, heads,
// dim], which are the same on all context ranks. Each rank has the gradient of what its own queries
// make of them. Dropout draws what the undivided call draws.
Variable attend_replicated_keys(const ProjectedQKV& input,
                                const Variable& key,
                                const Variable& value,
                                const std::optional<AttentionDropout>& dropout);

}  // namespace longspan
