// External scores of a recorded attention: their variables among the inputs of the op, and their
// gradients. Private to framework/autograd.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "framework/autograd/ops.h"
#include "framework/autograd/ring_attention.h"
#include "framework/kernels/attention/external_scores.h"

namespace longspan {

// Attention with external scores as a recorded op (kernels/attention/external_scores.h).

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

// Members of ExternalScores, for iteration.
inline constexpr std::array<Tensor ExternalScores::*, 3> external_parts = {
    &ExternalScores::row, &ExternalScores::low, &ExternalScores::high};

// Index of each among the inputs; 0: absent.
using GivenPlaces = std::array<std::size_t, external_parts.size()>;

struct GivenInputs {
  ExternalScores values;
  GivenPlaces places = {};
};

// Appends their variables to the inputs.
GivenInputs add_external_scores(const ExternalScoreVariables& given, std::vector<Variable>& inputs);
// Returns zeros for each of them, in the accumulator dtype.
ExternalScores external_score_gradients(const ExternalScores& given);
// Sets the gradients, in the dtype of the values.
void add_external_gradients(BackwardContext& gradients,
                            const GivenPlaces& places,
                            const ExternalScores& found,
                            DType dtype);

// As `attention` and `ring_attention`, with external scores.
Variable attention_with(const Variable& query,
                        const Variable& key,
                        const Variable& value,
                        const AttentionMask& mask,
                        const AttentionTerms& terms,
                        const ExternalScoreVariables& given,
                        const std::optional<AttentionDropout>& dropout);
Variable ring_attention_with(const Variable& query,
                             const Variable& key,
                             const Variable& value,
                             const AttentionMask& mask,
                             const AttentionTerms& terms,
                             const ExternalScoreVariables& given,
                             const std::optional<AttentionDropout>& dropout,
                             const SequenceShards& shares);

}  // namespace longspan
