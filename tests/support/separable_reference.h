// Separable convolutions of whole sequences on one rank, as the golden files define them: the
// reference of framework/nn/separable_convolution.h.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/autograd/convolution.h"
#include "framework/autograd/ops.h"

namespace longspan::testing {

// One separable convolution. Biases may be undefined.
struct SeparableWeights {
  Variable depthwise;  // [in, taps], accumulator dtype
  Variable pointwise;  // [out, in]
  Variable bias = {};  // [out]
};
struct SeparableOptions {
  ConvolutionPadding padding = ConvolutionPadding::same;
  Tensor real = {};  // [batch, time] u8 on the host: 0 for padding; undefined: no padding
  Tensor document_position = {};
};

// Returns P (D * (m x)) + b [batch, time, out]: the depthwise convolution D of x [batch, time, in],
// without padding (m) and with zeros outside the sequence, then the linear layer P. The output at
// padding is not zero.
inline Variable separable_convolution(const Variable& x,
                                      const SeparableWeights& weights,
                                      const SeparableOptions& options) {
  const std::int64_t batch = x.shape()[0], time = x.shape()[1];
  const std::int64_t taps = weights.depthwise.shape()[1];
  const std::int64_t later = later_taps(options.padding, taps);
  const std::uint8_t* const real =
      options.real.defined() ? options.real.data<std::uint8_t>() : nullptr;
  std::vector<std::int64_t> indices;
  for (std::int64_t row = 0; row < batch; ++row)
    for (std::int64_t i = later + 1 - taps; i < time + later; ++i) {
      const bool is_read = i >= 0 && i < time && (real == nullptr || real[row * time + i] != 0);
      indices.push_back(is_read ? i : -1);
    }
  const Variable sums =
      depthwise_convolution(rows_at(x, indices),
                            weights.depthwise,
                            {},
                            {.later = later, .document_position = options.document_position});
  return linear(sums, weights.pointwise, weights.bias);
}

// Returns the transition of a Universal Transformer [batch, time, out] (Dehghani et al. 2019;
// tensor2tensor, sepconv_relu_sepconv): h = relu(P1 (D1 * (m x)) + b1); y = P2 (D2 * (m h)) + b2.
inline Variable separable_transition(const Variable& x,
                                     const SeparableWeights& in,
                                     const SeparableWeights& out,
                                     const SeparableOptions& options) {
  return separable_convolution(
      activate(Activation::relu, separable_convolution(x, in, options)), out, options);
}

}  // namespace longspan::testing
