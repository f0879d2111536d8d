// Attention with external scores as a recorded op (kernels/attention/external_scores.h).
#pragma once

#include <optional>

#include "framework/autograd/ops.h"
#include "framework/autograd/ring_attention.h"

namespace longspan {

// Shapes as in ExternalScores. Either term may be undefined.
struct ExternalScoreVariables {
  Variable row = {};   // [1, time, heads, positions]
  Variable low = {};   // [batch, time, heads, a]
  Variable high = {};  // [batch, time, heads, c]
};

// As `attention`, or with shares as `ring_attention`. Rows are then those of this rank's queries,
// with a column for each position of the full sequence, so that they need no communication.
Variable attention_with_external_scores(const Variable& query,
                                        const Variable& key,
                                        const Variable& value,
                                        const AttentionMask& mask,
                                        const AttentionTerms& terms,
                                        const ExternalScoreVariables& given,
                                        const std::optional<AttentionDropout>& dropout,
                                        const std::optional<SequenceShards>& shares = {});

}  // namespace longspan
