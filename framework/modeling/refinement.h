// What a target that is said several times is read as in training (Lee et al. 2018).
#pragma once

#include "framework/modeling/backbone.h"

namespace longspan {

// The passes that are made, counted from 0, and from which on they are learned from.
struct RefinementPasses {
  std::int64_t last = 0;
  std::int64_t first_learnt = 0;
};
// With NatOptions::one_pass the last of them is drawn, as a function of (seed, step), and
// learned from alone. A plan has the most there may be.
RefinementPasses refined_passes(const NatTargets& options, const ForwardContext& pass, bool dry);

// `tokens` of the next pass: in place of the words that were to be said `said` [rows, time], or in
// some rows the true ones with some mistakes: a third of 0.33 of them another word, a third said
// twice in place of the next one, a third changing places with it (as in fairseq). Which rows and
// words is a function of (seed, step, pass, global row, position).
Tensor next_refinement_input(const NatTargets& options,
                             const ModelInput& reading,
                             const Tensor& said,
                             const ForwardContext& pass);

}  // namespace longspan
