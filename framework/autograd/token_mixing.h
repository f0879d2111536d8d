// Mixing of tokens by matrices over positions: the Fourier transform of FNet (Lee-Thorp et al.
// 2021), and the learned ones of gMLP (Liu et al. 2021) and MLP-Mixer (Tolstikhin et al. 2021).
#pragma once

#include <cstdint>

#include "framework/autograd/variable.h"

namespace longspan {

// Returns [count, rows, columns]: the rows from `begin` on and the first columns of each matrix of
// x [count, positions, positions], with 0 above the diagonal if causal.
Variable crop_matrices(
    const Variable& x, std::int64_t begin, std::int64_t rows, std::int64_t columns, bool causal);

// y_i = sum_j weight_hij x_j + bias_hi, in each channel, where head h has an equal part of the
// channels. x: [batch, in, channels]; weight: [heads, out, in]; bias: [heads, out]. Returns [batch,
// out, channels].
Variable mix_positions(const Variable& x, const Variable& weight, const Variable& bias);

// Spatial gate of gMLP. Returns the gate of the positions from `begin` on, [batch, positions of u -
// begin, channels], to be multiplied with the other half. u: [batch, positions, channels], after
// its norm; weight: [heads, longest, longest]; bias: [heads, longest]. A causal gate has a masked
// weight. A shorter sequence uses the leading rows and columns.
struct SpatialGate {
  Variable weight;
  Variable bias;
  bool causal = false;
  std::int64_t begin = 0;
};
Variable spatial_gate(const Variable& u, const SpatialGate& gate);

// Token mixing of MLP-Mixer. Returns W2 gelu(W1 x + b1) + b2 in each channel. x: [batch, time,
// channels]; in: [hidden, time]; in_bias: [hidden]; out: [time, hidden]; out_bias: [time].
struct TokenMixingWeights {
  Variable in;
  Variable in_bias;
  Variable out;
  Variable out_bias;
};
Variable mix_tokens(const Variable& x, const TokenMixingWeights& weights);

// Fourier transforms over time, of one length. F[j, k] = exp(-2 pi i j k / length), not normalized.
//
// A length a b is transformed in two steps of sizes a and b, the divisors closest to its square
// root (Cooley and Tukey 1965): length (a + b) products for each channel.
class FourierTransform {
 public:
  FourierTransform(std::int64_t length, DType dtype, const Device& device);
  std::int64_t length() const { return length_; }
  // Returns the real and the imaginary parts, [batch, length, 2 channels]. x: [batch, length,
  // channels], in the dtype of the transform.
  Variable operator()(const Variable& x) const;

 private:
  std::int64_t length_;
  std::int64_t steps_;  // a
  Variable first_;      // [1, 2 a, a]; undefined for a = 1
  Variable second_;     // [a, 2 b, 2 b], or [1, 2 b, b] for a = 1
};

// Returns the matrix that transforms the features of FourierTransform's result and has the real
// part of the transform over both axes as its result: y = linear(x, matrix). [width, 2 count], for
// the features from `begin` on, of `width`. They are in `blocks` equal blocks, each with the real
// and then the imaginary parts.
Tensor fourier_features(std::int64_t width,
                        std::int64_t begin,
                        std::int64_t count,
                        std::int64_t blocks,
                        DType dtype,
                        const Device& device);

}  // namespace longspan
