// Actor-critic output head: action probabilities and values.
#pragma once

#include "framework/modeling/output_head.h"

namespace longspan {

// A softmax "policy" over ModelBuildOptions::classes actions, and a "value" at each position.
// Fields, each [rows, time]: `actions`, negative where nothing is learned; `log_probabilities` of
// the actions when they were taken, `advantages` and `returns`, f64.
//
// Loss terms, over "tokens" (PPO, Schulman et al. 2017): "policy", the clipped objective; "value",
// half the squared error; "entropy", with a negative weight. Ranks that share time first gather the
// outputs, which are narrow. Each then computes the losses of a part of the rows.
//
// `scores`: [rows, time, actions + 1] in f64 on the host: policy logits, then the value. They cover
// all positions and are equal on every rank that shares the rows or the weights. Records no
// gradient.
OutputHeadFactory policy_head();

}  // namespace longspan
