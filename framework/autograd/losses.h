// Losses with kernels of their own.
#pragma once

#include <cstdint>

#include "framework/autograd/variable.h"
#include "framework/kernels/policy.h"

namespace longspan {

// As kernels/logistic_mixture.h: parameters [..., mixture_parameters], values [..., channels] with
// equal pixel counts. Returns [pixels].
Variable logistic_mixture_losses(const Variable& parameters,
                                 const Tensor& values,
                                 std::int64_t mixtures);

// Targets of actions, as in kernels/policy.h. Those that a function does not read may be undefined.
struct PolicyTargets {
  Tensor action;
  Tensor before = {};
  Tensor advantage = {};
  Tensor wanted = {};
};

// x: [..., width], f32 or f64; results: with equal row count. Returns [rows].
Variable policy_losses(PolicyLossKind function,
                       const Variable& x,
                       const PolicyTargets& results,
                       double clip = 0);

// Linear-chain conditional random field (CRF) over tags (kernels/crf.h).

// start, end: [tags]; transitions: [tags, tags], from and to. Parameters, or in the accumulator
// dtype. -inf forbids a transition.
struct CrfWeights {
  Variable start;
  Variable transitions;
  Variable end;
};

// Returns -log p(tags) of each row, [rows] in the accumulator dtype; 0 for an empty row. emissions:
// [rows, time, tags]; tags: [rows, time] i64; lengths: [rows] i64, or undefined if all rows are
// full. Positions after a row's length are not read and have gradient 0.
Variable crf_losses(const Variable& emissions,
                    const CrfWeights& weights,
                    const Tensor& tags,
                    const Tensor& lengths = {});

// Tags with the highest score, and that score. tags: [rows, time] i64, -1 after a row's length;
// scores: [rows] in the accumulator dtype. Records no gradient.
struct ViterbiPaths {
  Tensor tags;
  Tensor scores;
};
ViterbiPaths viterbi_decode(const Tensor& emissions,
                            const CrfWeights& weights,
                            const Tensor& lengths = {});

}  // namespace longspan
