// Gates that replace the residual sum (GTrXL, Parisotto et al. 2019, section 3.2).
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// Element-wise function of the residual stream x, a change (the sublayer's output) and gate logits.
// s is the logistic function and b a per-feature bias.
enum class GateFunction : std::uint8_t {
  reset,    // s(logit) x
  input,    // s(logit) x + change
  output,   // x + s(logit - b) change
  highway,  // s(logit + b) x + (1 - s(logit + b)) change
  sigtanh,  // x + s(logit - b) tanh(change)
  gru       // (1 - s(logit - b)) x + s(logit - b) tanh(change)
};

// Whether the function reads a change, and a bias.
constexpr bool has_change(GateFunction function) { return function != GateFunction::reset; }
constexpr bool has_bias(GateFunction function) {
  return function != GateFunction::reset && function != GateFunction::input;
}

// x, change, logits, y: [rows, width] (leading axes flattened), same dtype. bias: [width],
// accumulator dtype. change and bias are undefined if the function has none. Overwrites y, which
// may alias x, change or logits.
struct Gating {
  GateFunction function = GateFunction::gru;
  Tensor x;
  Tensor change = {};
  Tensor logits;
  Tensor bias = {};
  Tensor y;
};
void gate(Cpu, const Gating&);
void gate(Cuda, const Gating&);

// Gradients with respect to the inputs of `gate`, overwritten. Each may alias its input, or dy.
// dchange is undefined if there is no change. The bias gradient is the sum of dlogits over the
// rows, with the sign of the bias.
struct GatingGradient {
  GateFunction function = GateFunction::gru;
  Tensor x;
  Tensor change = {};
  Tensor logits;
  Tensor bias = {};
  Tensor dy;
  Tensor dx;
  Tensor dchange = {};
  Tensor dlogits;
};
void gate_backward(Cpu, const GatingGradient&);
void gate_backward(Cuda, const GatingGradient&);

// Throws Failure if shapes or dtypes do not match the comments above.
void check(const Gating&);
void check(const GatingGradient&);

}  // namespace longspan
