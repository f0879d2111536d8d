// What a decoder's positions look at of a source, and what is made of it: copying, coverage, guides
// (kernels/dense_attention_weights.h, kernels/pointer_generator.h).
#pragma once

#include "framework/autograd/variable.h"
#include "framework/core/range.h"
#include "framework/kernels/pointer_generator.h"

namespace longspan {

// weight * the sum of the probabilities of heads [heads.begin, heads.end), [batch, time, positions]
// in the accumulator dtype. query: [batch, time, heads, dim], of which the scores are divided by
// sqrt(dim); key: [batch, positions, heads, dim]; lengths: [batch] i64, of the positions that are
// seen; undefined: all.
Variable dense_attention_weights(const Variable& query,
                                 const Variable& key,
                                 const Tensor& lengths,
                                 const Range& heads,
                                 double weight);

// [batch, time]: how much attention [batch, time, positions] lies where the source is the target.
// source: [batch, positions] i64; targets: [batch, time] i64.
Variable copy_probability(const Variable& attention, const Tensor& source, const Tensor& targets);

// -log of a target's probability, of the shape of `generated`, in f32 or f64: the vocabulary gives
// it e^-generated, copying `copied`, and logistic(gate) is how much the vocabulary counts (See et
// al. 2017). 0 where the target is negative. All have as many elements.
Variable pointer_generator_losses(const Variable& generated,
                                  const Variable& gate,
                                  const Variable& copied,
                                  const Tensor& targets);

// [batch, time]: how much of the attention lies where that of earlier times has lain (See et al.
// 2017). 0 where a target is negative.
Variable coverage_losses(const Variable& attention, const Tensor& targets);

// [batch, time]: what a guide of attention's shape and dtype has to say of it. `epsilon`: added to
// attention before its logarithm is taken.
Variable guided_attention_losses(const Variable& attention,
                                 const Tensor& guide,
                                 GuidedAttentionLoss kind,
                                 double epsilon = 0);

// x, of which `ranks` ranks each bring the whole gradient to a sum over them: it is divided among
// them.
Variable shared_gradient(const Variable& x, int ranks);

}  // namespace longspan
