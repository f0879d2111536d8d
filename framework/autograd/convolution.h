// Convolutions of each channel over time, as recorded ops.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/autograd/chunk_state.h"
#include "framework/autograd/variable.h"

namespace longspan {

// Options of kernels/short_convolution.h.
struct DepthwiseOptions {
  std::int64_t later = 0;  // number of last taps that read later tokens
  Tensor document_position = {};
  bool silu = false;
};

// Returns the convolution of rows [batch, taps - 1 + time, channels]: [batch, time, channels], as
// in kernels/short_convolution.h. weight: [channels, taps]; bias: [channels] or undefined.
Variable depthwise_convolution(const Variable& rows,
                               const Variable& weight,
                               const Variable& bias,
                               const DepthwiseOptions& options);

// Returns act(convolution of x) [batch, time, channels], which reads earlier tokens. x: [batch,
// time, channels]; weight: [channels, taps] and bias: [channels] (may be undefined), accumulator
// dtype. Continues from the last taps - 1 rows of x before a chunk, [batch, taps - 1, 1, channels].
Variable short_convolution(const Variable& x,
                           const Variable& weight,
                           const Variable& bias,
                           const Tensor& document_position,
                           bool silu,
                           const ChunkBoundaries& state = {});

// Returns x [batch, time, channels] after the `rows` rows before it, zeros at the start of a
// sequence. The state before a chunk: [batch, rows, 1, channels].
Variable with_rows_before(const Variable& x, std::int64_t rows, const ChunkBoundaries& state);

// Returns [batch, n, width]: the rows of x [batch, time, width] with these indices, n for each
// batch row, and zeros for -1. Rows may repeat.
Variable rows_at(const Variable& x, const std::vector<std::int64_t>& indices);

// Position of a token among the taps of its convolution. same: the middle (of an even number, the
// earlier one of the two). left: the last, so that no tap reads a later token.
enum class ConvolutionPadding : std::uint8_t { same, left };
inline std::int64_t later_taps(ConvolutionPadding padding, std::int64_t taps) {
  return padding == ConvolutionPadding::same ? taps / 2 : 0;
}

}  // namespace longspan
