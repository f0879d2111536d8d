// Short convolution of each channel over time.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// y_t = act(bias + sum_j weight_j x_(t + j)), over the rows of x [batch, taps - 1 + time,
// channels], whose last `later` rows follow the sequence and whose first taps - 1 - later rows
// precede it. y: [batch, time, channels], in x's dtype. weight: [channels, taps], whose last tap
// but `later` is the token itself; bias: [channels] or undefined; both in the accumulator dtype.
struct ShortConvolution {
  Tensor x;
  Tensor weight;
  Tensor bias = {};
  std::int64_t later = 0;
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

// Throw Failure if shapes or dtypes do not match the comments above.
void check(const ShortConvolution&);
void check(const ShortConvolutionGradient&);

}  // namespace longspan
