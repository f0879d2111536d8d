// Attention with given scores as a recorded op (kernels/attention/external_scores.h).
#pragma once

#include <optional>

#include "framework/autograd/ops.h"
#include "framework/autograd/ring_attention.h"

namespace longspan {

// Shaped as ExternalScores says; either sum may be undefined.
struct ExternalScoreVariables {
  Variable row = {};   // [1, time, heads, positions]
  Variable low = {};   // [batch, time, heads, a]
  Variable high = {};  // [batch, time, heads, c]
};

// As `attention`; with shares as `ring_attention`, where the rows are those of this rank's queries
// and have a place for each position of the whole sequence, so that nothing of them travels.
Variable attention_with_external_scores(const Variable& query,
                                        const Variable& key,
                                        const Variable& value,
                                        const AttentionMask& mask,
                                        const AttentionTerms& terms,
                                        const ExternalScoreVariables& given,
                                        const std::optional<AttentionDropout>& dropout,
                                        const std::optional<SequenceShards>& shares = {});

}  // namespace longspan
