// What is learnt of a policy and of values by acting (PPO, Schulman et al. 2017).
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

enum class PolicyLossKind : std::uint8_t {
  // -min(ratio advantage, clip(ratio, 1 - clip, 1 + clip) advantage), where the ratio is that of
  // the
  // action's probability to what it was when the action was taken.
  clipped,
  entropy,  // of the policy, in nats
  square    // (value - wanted)^2 / 2
};

// y [rows], written, is a function of each row of x, and 0 where the action is negative. x: [rows,
// actions] logits, of a square [rows, 1] values. action: [rows] i64. before, the logarithm of the
// probability that the action had, and advantage: [rows], of `clipped` alone; wanted: [rows], of
// `square` alone. All but the actions of one dtype, f32 or f64.
struct PolicyLoss {
  PolicyLossKind function = PolicyLossKind::clipped;
  Tensor x;
  Tensor action;
  Tensor before = {};
  Tensor advantage = {};
  Tensor wanted = {};
  double clip = 0.2;
  Tensor y = {};  // not read by the gradient
};
void policy_loss(Cpu, const PolicyLoss&);
void policy_loss(Cuda, const PolicyLoss&);

// dx, shaped as x, is written. dy: [rows].
struct PolicyScoreGradient {
  PolicyLoss forward;
  Tensor dy;
  Tensor dx;
};
void policy_score_backward(Cpu, const PolicyScoreGradient&);
void policy_score_backward(Cuda, const PolicyScoreGradient&);

// Throw Failure where shapes or dtypes are not as said above.
void check(const PolicyLoss&);
void check(const PolicyScoreGradient&);

}  // namespace longspan
