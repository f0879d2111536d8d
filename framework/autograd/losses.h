// Losses with kernels of their own, and the decoder's attention over source positions that some of
// them read.
#pragma once

#include <cstdint>

#include "framework/autograd/variable.h"
#include "framework/core/range.h"
#include "framework/kernels/pointer_generator.h"
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

// Losses of whole output sequences (kernels/sequence_losses.h).

// Returns sum_t weights[r, t] x[r, t], [rows]. x: [rows, time], f32 or f64. weights: constants of
// that shape and dtype.
Variable weighted_row_sums(const Variable& x, const Tensor& weights);

// Candidate outputs of each input. Both: [groups, candidates].
struct CandidateCosts {
  Tensor cost;     // in the dtype of the log-probabilities
  Tensor present;  // i64; 0: no candidate
};

// Returns the expected cost of each group under Q = softmax(alpha l) over its candidates, [groups]
// (minimum risk training, Shen et al. 2016); 0 without candidates. log_probabilities: l, with as
// many elements as the costs. Costs have no gradient. d expected / d l = alpha Q (cost - expected).
Variable expected_costs(const Variable& log_probabilities,
                        const CandidateCosts& candidates,
                        double alpha);

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

// Decoder attention over source positions, and its uses: copying, coverage, guided attention
// (kernels/dense_attention_weights.h, kernels/pointer_generator.h).

// Returns weight * sum of the probabilities of heads [heads.begin, heads.end), [batch, time,
// positions] in the accumulator dtype. query: [batch, time, heads, dim], scores are divided by
// sqrt(dim); key: [batch, positions, heads, dim]; lengths: [batch] i64, number of visible
// positions. Undefined: all.
Variable dense_attention_weights(const Variable& query,
                                 const Variable& key,
                                 const Tensor& lengths,
                                 const Range& heads,
                                 double weight);

// Returns [batch, time]: total attention [batch, time, positions] to source positions equal to the
// target. source: [batch, positions] i64; targets: [batch, time] i64.
Variable copy_probability(const Variable& attention, const Tensor& source, const Tensor& targets);

// Returns -log of a target's probability, in the shape of `generated`, f32 or f64. The vocabulary
// assigns it e^-generated, copying assigns `copied`, and sigmoid(gate) is the weight of the
// vocabulary (See et al. 2017). 0 where the target is negative. Requires equal element counts.
Variable pointer_generator_losses(const Variable& generated,
                                  const Variable& gate,
                                  const Variable& copied,
                                  const Tensor& targets);

// Returns [batch, time]: overlap of the attention with that of earlier steps (See et al. 2017). 0
// where a target is negative.
Variable coverage_losses(const Variable& attention, const Tensor& targets);

// Returns [batch, time]: guided attention loss for a guide with attention's shape and dtype.
// `epsilon`: added to attention before the logarithm.
Variable guided_attention_losses(const Variable& attention,
                                 const Tensor& guide,
                                 GuidedAttentionLoss kind,
                                 double epsilon = 0);

// Returns x, whose gradient is divided by `ranks`. For a value whose full gradient each of `ranks`
// ranks contributes to a sum over them.
Variable shared_gradient(const Variable& x, int ranks);

}  // namespace longspan
