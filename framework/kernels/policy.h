// Losses of policy and value learning (PPO, Schulman et al. 2017).
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

enum class PolicyLossKind : std::uint8_t {
  // -min(ratio advantage, clip(ratio, 1 - clip, 1 + clip) advantage). The ratio is the action's
  // probability over its probability at sampling time.
  clipped,
  entropy,  // of the policy, in nats
  square    // half the squared error of the value
};

// y[r] is the chosen function of row r of x, or 0 if the action is negative. y: [rows],
// overwritten. x: [rows, actions] logits, or for `square` [rows, 1] values. action: [rows] i64.
// `clipped` also reads before, the log-probability of the action at sampling time, and advantage:
// [rows]. `square` also reads the target values: [rows]. All tensors except action have one dtype,
// f32 or f64.
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

// Overwrites dx, shaped as x. dy: [rows].
struct PolicyScoreGradient {
  PolicyLoss forward;
  Tensor dy;
  Tensor dx;
};
void policy_score_backward(Cpu, const PolicyScoreGradient&);
void policy_score_backward(Cuda, const PolicyScoreGradient&);

// Throws Failure if shapes or dtypes do not match the comments above.
void check(const PolicyLoss&);
void check(const PolicyScoreGradient&);

}  // namespace longspan
