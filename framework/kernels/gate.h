// Gates in place of a residual sum (GTrXL, Parisotto et al. 2019, section 3.2).
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// What is made, feature by feature, of x, the stream, a change of it, and the logits of a gate,
// with s the logistic function and b a bias of each feature.
enum class GateFunction : std::uint8_t {
  reset,    // s(logit) x
  input,    // s(logit) x + change
  output,   // x + s(logit - b) change
  highway,  // s(logit + b) x + (1 - s(logit + b)) change
  sigtanh,  // x + s(logit - b) tanh(change)
  gru       // (1 - s(logit - b)) x + s(logit - b) tanh(change)
};

// Whether the function has a change, and a bias.
constexpr bool has_change(GateFunction function) { return function != GateFunction::reset; }
constexpr bool has_bias(GateFunction function) {
  return function != GateFunction::reset && function != GateFunction::input;
}

// x, change, logits, y: [rows, width] (leading axes flattened), of one dtype. bias: [width], the
// accumulator's dtype. The change and the bias are undefined where the function has none. y is
// written and may be x, change or logits.
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

// The gradients of what `gate` read; they are written, and each may be what it is the gradient of,
// or dy. dchange is undefined where there is no change. The gradient of the bias is the sum of
// dlogits over the rows, with the bias's sign.
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

// Throw Failure where shapes or dtypes are not as said above.
void check(const Gating&);
void check(const GatingGradient&);

}  // namespace longspan
