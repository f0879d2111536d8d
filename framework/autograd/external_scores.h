// Score terms of a recorded attention, external scores among them: their variables among the inputs
// of the op, and their gradients.
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

// Terms of kernels/attention/attention.h. Private to framework/autograd.

// Index of each term's variables among the inputs, after query, key and value; 0: no such term.
struct TermPlaces {
  std::size_t relative = 0;  // followed by its two biases
  std::size_t key_table = 0;
  bool key_table_is_made = false;  // the key table is an activation
  std::size_t value_table = 0;
  std::size_t span = 0;
  std::size_t distance_bias = 0;
  std::size_t sinks = 0;
  Tensor sink_values = {};
};

// Sets the terms of the call and appends their variables to the inputs.
TermPlaces add_terms(const AttentionTerms& terms, Attention& call, std::vector<Variable>& inputs);

// Returns the buffers that accumulate the gradients of the call's terms, over one or several
// backward calls for parts of the keys.
AttentionGradient term_gradients(BackwardContext& gradients,
                                 const Attention& forward,
                                 const TermPlaces& places);
// Requires complete gradients.
void add_term_gradients(BackwardContext& gradients,
                        const AttentionGradient& found,
                        const Attention& forward,
                        const TermPlaces& places);

// Adds the sinks to the attention result over all keys.
void join_sinks(const TermPlaces& places, const Tensor& out, const Tensor& log_sum_exp);
// Requires both with the sinks added.
void add_sink_gradients(BackwardContext& gradients,
                        const TermPlaces& places,
                        const Tensor& out,
                        const Tensor& log_sum_exp,
                        const Tensor& dout);

}  // namespace longspan
