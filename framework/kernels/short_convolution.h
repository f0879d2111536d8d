// Short causal convolution of each channel, and the decay gates of Mamba-2 and the gated delta
// rules.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// y_t = act(bias + sum_j weight_j x_(t + j)), over the rows of x [batch, taps - 1 + time,
// channels], whose first taps - 1 rows precede the sequence. y: [batch, time, channels], in x's
// dtype. weight: [channels, taps], whose last tap is the token itself; bias: [channels] or
// undefined; both in the accumulator dtype.
struct ShortConvolution {
  Tensor x;
  Tensor weight;
  Tensor bias = {};
  // [batch, time] i64: the position of each token in its document; no tap reads an earlier one.
  Tensor document_position = {};
  bool silu = true;
  Tensor y = {};
};
void short_convolution(Cpu, const ShortConvolution&);
void short_convolution(Cuda, const ShortConvolution&);

// Overwrites dx, dweight and dbias (if defined), in the shapes and dtypes of their tensors.
struct ShortConvolutionGradient {
  ShortConvolution forward;
  Tensor dy;
  Tensor dx;
  Tensor dweight;
  Tensor dbias = {};
};
void short_convolution_backward(Cpu, const ShortConvolutionGradient&);
void short_convolution_backward(Cuda, const ShortConvolutionGradient&);

// g = -e^log_rate softplus(x), in the accumulator dtype. x, g: [rows, heads * n] (leading axes
// flattened); log_rate: [heads], accumulator dtype.
struct DecayGate {
  Tensor x;
  Tensor log_rate;
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

// Throw Failure if shapes or dtypes do not match the comments above.
void check(const ShortConvolution&);
void check(const ShortConvolutionGradient&);
void check(const DecayGate&);
void check(const DecayGateGradient&);

}  // namespace longspan
