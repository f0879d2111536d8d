// Activation functions of feed-forward layers.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

enum class Activation : std::uint8_t {
  none,
  relu,
  gelu,       // x Phi(x), the exact form with erf
  gelu_tanh,  // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  silu        // x / (1 + exp(-x)) (Elfwing et al. 2018)
};

// y = activation(x). x, y: any shape, same dtype. Overwrites y, which may alias x.
void activate(Cpu, Activation, const Tensor& x, const Tensor& y);
void activate(Cuda, Activation, const Tensor& x, const Tensor& y);

// dx = dy * activation'(x). `kept` is x, or for relu either x or y (both have the same sign).
// Overwrites dx, which may alias dy.
void activate_backward(Cpu, Activation, const Tensor& kept, const Tensor& dy, const Tensor& dx);
void activate_backward(Cuda, Activation, const Tensor& kept, const Tensor& dy, const Tensor& dx);

}  // namespace longspan
