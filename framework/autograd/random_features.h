// Random features of queries and keys, and what weighs keys of linear attention, as recorded ops.
#pragma once

#include <optional>

#include "framework/autograd/ring_attention.h"
#include "framework/kernels/attention/mask.h"
#include "framework/kernels/random_features.h"

namespace longspan {

// x: [batch, time, heads, dim]; projection: W, [count, dim], any floating dtype, a constant of all
// heads. features: [batch, time, heads, features]; shift: [batch, time, heads] in the accumulator
// dtype, for the softmax's alone: the features are exp(-shift) of what they should be. Projected
// rows are made in pieces and kept nowhere.
struct StabilizedFeatures {
  Variable features;
  Tensor shift;
};
StabilizedFeatures random_features(const Variable& x,
                                   const Tensor& projection,
                                   const RandomFeatures& map);

// What keys of such features weigh (kernels/attention/key_weights.h): log_weight and, where causal,
// decay [batch, keys, heads]. first: [batch, heads], the largest shift of what came before, or
// undefined; last, where it is defined, becomes that of all up to the last key. Collective over
// shares.ranks.
struct KeyWeights {
  Tensor log_weight;
  Tensor decay;
};
KeyWeights weights_of_stabilizers(const Tensor& shift,
                                  bool causal,
                                  const std::optional<SequenceShards>& shares = {},
                                  const Tensor& first = {},
                                  const Tensor& last = {});

// log sigmoid(gate) and log(1 - sigmoid(gate)) in the accumulator dtype, of one shape with it.
struct GatedWeights {
  Variable decay;
  Variable log_weight;
};
GatedWeights gated_weights(const Variable& gate);

// Softmax over the last axis.
Variable softmax_of_features(const Variable& x);
// exp(x - the largest of all positions), 0 at hidden keys: what a softmax over positions divides by
// its sum. x: [batch, time, heads, dim]; log_weight: [batch, time, heads], -inf hides, or
// undefined. The largest is a constant. Collective over shares.ranks.
Variable exponentials_of_positions(const Variable& x,
                                   const Tensor& log_weight,
                                   const std::optional<SequenceShards>& shares = {});

// x * weight: [..., width] and a weight of `width` elements in all, x's dtype or its accumulator's.
Variable scale_features(const Variable& x, const Variable& weight);

}  // namespace longspan
