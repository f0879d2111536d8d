// Decoder inputs of iterative refinement in training (Lee et al. 2018).
#pragma once

#include "framework/modeling/backbone.h"

namespace longspan {

// Passes, counted from 0: the last one, and the first one with a loss.
struct RefinementPasses {
  std::int64_t last = 0;
  std::int64_t first_learnt = 0;
};
// Returns the passes of a step. With NatOptions::one_pass the last pass is drawn as a function of
// (seed, step), and only that pass has a loss. A dry run plans the maximum.
RefinementPasses refined_passes(const NatTargets& options, const ForwardContext& pass, bool dry);

// Returns `tokens` of the next pass. Tokens to predict are replaced by the given predictions [rows,
// time], or in some rows by corrupted gold tokens. Corruption affects 0.33 of the tokens: a third
// each are replaced, duplicated over the next token, or swapped with it (as in fairseq). The choice
// of rows and tokens is a function of (seed, step, pass, global row, position).
Tensor next_refinement_input(const NatTargets& options,
                             const ModelInput& reading,
                             const Tensor& predictions,
                             const ForwardContext& pass);

}  // namespace longspan
