// The terms of a recorded attention: their variables among the inputs of its op, and what becomes
// of their gradients. Private to framework/autograd.
#pragma once

#include <cstddef>
#include <vector>

#include "framework/autograd/ops.h"

namespace longspan {

// Where each term's variables stand among the inputs, after query, key and value; 0: there is no
// such term.
struct TermPlaces {
  std::size_t relative = 0;  // and its two biases behind it
  std::size_t key_table = 0;
  bool key_table_is_made = false;  // it is an activation
  std::size_t value_table = 0;
  std::size_t span = 0;
  std::size_t distance_bias = 0;
  std::size_t sinks = 0;
  Tensor sink_values = {};
};

// Sets the terms of the call and adds their variables to the inputs.
TermPlaces add_terms(const AttentionTerms& terms, Attention& call, std::vector<Variable>& inputs);

// What the gradients of the call's terms are added to, for one backward pass or for several over
// parts of the keys.
AttentionGradient term_gradients(BackwardContext& gradients,
                                 const Attention& forward,
                                 const TermPlaces& places);
// When all of them are there.
void give_term_gradients(BackwardContext& gradients,
                         const AttentionGradient& found,
                         const Attention& forward,
                         const TermPlaces& places);

// Sinks are joined to what has been made of all keys.
void join_sinks(const TermPlaces& places, const Tensor& out, const Tensor& log_sum_exp);
// Of both as they then are.
void give_sink_gradients(BackwardContext& gradients,
                         const TermPlaces& places,
                         const Tensor& out,
                         const Tensor& log_sum_exp,
                         const Tensor& dout);

}  // namespace longspan
