// Random features of queries and keys, and key weights of linear attention, as recorded ops.
#pragma once

#include <optional>

#include "framework/autograd/ring_attention.h"
#include "framework/kernels/attention/mask.h"
#include "framework/kernels/random_features.h"

namespace longspan {

// x: [batch, time, heads, dim]; projection: W, [count, dim], any floating dtype, a constant shared
// by all heads. features: [batch, time, heads, features]; shift: [batch, time, heads] in the
// accumulator dtype, for softmax features only: they are scaled by exp(-shift). Projected rows are
// computed in chunks and not stored.
struct StabilizedFeatures {
  Variable features;
  Tensor shift;
};
StabilizedFeatures random_features(const Variable& x,
                                   const Tensor& projection,
                                   const RandomFeatures& map);

// Key weights that compensate the shifts (kernels/attention/key_weights.h): log_weight and, if
// causal, decay [batch, keys, heads]. first: [batch, heads], largest shift of the prefix, or
// undefined. last, if defined, receives the largest shift up to the last key. Collective over
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

// log sigmoid(gate) and log(1 - sigmoid(gate)) in the accumulator dtype, in the shape of `gate`.
struct GatedWeights {
  Variable decay;
  Variable log_weight;
};
GatedWeights gated_weights(const Variable& gate);

// Softmax over the last axis.
Variable softmax_of_features(const Variable& x);
// Returns exp(x - max over positions), 0 at hidden keys: the numerator of a softmax over positions.
// x: [batch, time, heads, dim]; log_weight: [batch, time, heads], -inf hides, or undefined. The
// maximum is a constant. Collective over shares.ranks.
Variable exponentials_of_positions(const Variable& x,
                                   const Tensor& log_weight,
                                   const std::optional<SequenceShards>& shares = {});

// Returns x * weight for x [..., width] and a weight of `width` elements, in x's dtype or its
// accumulator dtype.
Variable scale_features(const Variable& x, const Variable& weight);

}  // namespace longspan
