// Sequence-level training: losses of whole outputs that a model has sampled (Shen et al. 2016,
// Rennie et al. 2017).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "framework/core/tensor.h"
#include "framework/modeling/backbone.h"

namespace longspan {

// Returns for each of consecutive groups of `samples` rewards the mean of the group's other rewards
// (leave-one-out baseline). Throws Failure for less than 2 samples.
std::vector<double> leave_one_out_baselines(std::span<const double> rewards, std::size_t samples);

// Returns whether the rows of a batch are candidates.
inline bool has_candidates(const ModelInput& reading) {
  return reading.fields.contains("candidate_weights");
}

// Returns the losses of a batch whose rows are groups of SequenceLevelOptions::rows_per_pair()
// outputs of one source. token_losses: cross-entropy of `targets` at this rank's positions inside
// split regions. Fields of minimum risk:
//   candidate_weights [rows, time] f64: -1, or -1 / length, at the tokens of a candidate;
//   candidate_present [rows] i64: 0 for other rows; candidate_costs [rows] f64.
// Loss term "risk", over "rows": the expected cost of each group. Fields of REINFORCE:
//   candidate_weights: reward - baseline at the tokens of a candidate.
// Loss term "reinforce", over "candidate_tokens" or "candidates": the weighted sum of
// cross-entropy, whose gradient is that of -(reward - baseline) ln P(candidate).
//
// With a cross-entropy weight also reference_weights [rows, time] f64, 1 at the tokens of a
// reference, and first the loss term "loss", over "reference_tokens". Collective over `context`.
std::vector<LossTerm> sequence_level_losses(const Variable& token_losses,
                                            const ModelInput& reading,
                                            const SequenceShard& time,
                                            const SequenceLevelOptions& options,
                                            const Communicator& context);

// Returns why an output head does not support sequence-level training; empty if it does.
std::string validate_sequence_level(const OutputHeadSpec& end, const ModelBuildOptions& setting);

}  // namespace longspan
