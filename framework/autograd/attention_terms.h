// Score terms of a recorded attention: their variables among the inputs of the op, and their
// gradients. Private to framework/autograd.
#pragma once

#include <cstddef>
#include <vector>

#include "framework/autograd/ops.h"

namespace longspan {

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
