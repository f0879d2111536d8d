// External scores of a recorded attention: their variables among the inputs of the op, and their
// gradients. Private to framework/autograd.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "framework/autograd/external_score_attention.h"
#include "framework/kernels/attention/external_scores.h"

namespace longspan {

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
