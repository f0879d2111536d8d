// The readout of who acts: how likely each action is, and what is yet to come.
#pragma once

#include "framework/modeling/output_head.h"

namespace longspan {

// A policy, "policy", whose softmax draws one of ModelBuildOptions::classes actions, and a value,
// "value", of each position. Fields, each [rows, time]: `actions`, negative where nothing is
// learnt; `log_probabilities` that these had when they were taken, `advantages` and `returns`, f64.
//
// Terms, over "tokens" (PPO, Schulman et al. 2017): "policy", the clipped objective; "value", half
// the squared error; "entropy", whose weight is negative. Where ranks share time they first share
// the outputs, which are narrow, and each makes the losses of a part of the rows.
//
// `scores`: [rows, time, actions + 1] in f64 for the host, the policy's logits and then the value,
// of all positions, the same on every rank that shares the rows or the weights. Nothing is
// recorded.
OutputHeadFactory policy_head();

}  // namespace longspan
