// Attention of a sharded sequence over keys that are replicated on every context rank.
#pragma once

#include "framework/nn/attention/attention_op.h"

namespace longspan {

// Returns the positions of this rank's keys in the full sequence.
Ranges key_positions(const ProjectedQKV& input);

// Softmax attention of this rank's queries over all of `key` and `value`, [batch, keys, heads,
// dim], which are equal on all context ranks. Each rank's gradient covers only its own queries.
// Dropout draws the same numbers as without sharding.
Variable attend_replicated_keys(const ProjectedQKV& input,
                                const Variable& key,
                                const Variable& value,
                                const std::optional<AttentionDropout>& dropout);

}  // namespace longspan
