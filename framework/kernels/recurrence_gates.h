// Step sizes and decay gates of gated recurrences, and products with one factor for each head. In
// all, leading axes are flattened to rows.
#pragma once

#include <limits>

#include "framework/core/tensor.h"

namespace longspan {

// d = min(max(softplus(x), least), most), in the accumulator dtype. x, d: [rows, heads].
struct StepSize {
  Tensor x;
  double least = 0;
  double most = std::numeric_limits<double>::infinity();
  Tensor d;
};
void step_size(Cpu, const StepSize&);
void step_size(Cuda, const StepSize&);

// Overwrites dx, in x's dtype: zero where the step has reached a limit. dd: accumulator dtype. Does
// not read forward.d.
struct StepSizeGradient {
  StepSize forward;
  Tensor dd;
  Tensor dx;
};
void step_size_backward(Cpu, const StepSizeGradient&);
void step_size_backward(Cuda, const StepSizeGradient&);

// g = -e^log_rate softplus(x) or, if x is a step, g = -e^log_rate x, in the accumulator dtype. x,
// g: [rows, heads * n]; log_rate: [heads], accumulator dtype.
struct DecayGate {
  Tensor x;
  Tensor log_rate;
  bool is_step = false;
  Tensor g;
};
void decay_gate(Cpu, const DecayGate&);
void decay_gate(Cuda, const DecayGate&);

// Overwrites dx, in x's dtype, and drate [rows, heads], whose sum over the rows is the gradient of
// log_rate. dg, drate: accumulator dtype. Does not read forward.g.
struct DecayGateGradient {
  DecayGate forward;
  Tensor dg;
  Tensor dx;
  Tensor drate;
};
void decay_gate_backward(Cpu, const DecayGateGradient&);
void decay_gate_backward(Cuda, const DecayGateGradient&);

// y = factor x, with one factor for each head. x, y: [rows, heads, n], in one dtype; factor: [rows,
// heads], or [heads] for all rows, accumulator dtype.
struct HeadScale {
  Tensor x;
  Tensor factor;
  Tensor y;

  bool by_row() const { return factor.elements() != x.shape()[-2]; }
};
void head_scale(Cpu, const HeadScale&);
void head_scale(Cuda, const HeadScale&);

// Overwrites dx, in x's dtype, and dfactor [rows, heads], accumulator dtype, whose sum over the
// rows is the gradient of a factor for all rows. Either may be undefined.
struct HeadScaleGradient {
  HeadScale forward;
  Tensor dy;
  Tensor dx = {};
  Tensor dfactor = {};
};
void head_scale_backward(Cpu, const HeadScaleGradient&);
void head_scale_backward(Cuda, const HeadScaleGradient&);

// Throw Failure if shapes or dtypes do not match the comments above.
void check(const StepSize&);
void check(const StepSizeGradient&);
void check(const DecayGate&);
void check(const DecayGateGradient&);
void check(const HeadScale&);
void check(const HeadScaleGradient&);

}  // namespace longspan
