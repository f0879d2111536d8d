// Depthwise convolution over the positions of a pass.
#pragma once

#include "framework/autograd/convolution.h"
#include "framework/nn/forward_context.h"

namespace longspan {

struct PositionConvolution {
  ConvolutionPadding padding = ConvolutionPadding::left;
  // [batch, time] i64: as in kernels/short_convolution.h. Only with `left`.
  Tensor document_position = {};
  // [batch] i64: number of positions of each row that are not padding, which centered taps do not
  // read. Undefined: all.
  Tensor length = {};
  // Rows before and after a chunk or a decoding step, [batch, taps - 1, 1, channels]. Only `left`.
  ChunkBoundaries state = {};
};

// Returns the convolution of x [batch, time, channels] over the positions in pass.time. Context
// ranks may share the sequence, and a pass may be one chunk of it. weight: [channels, taps],
// accumulator dtype. Throws Failure for centered taps with documents. Collective over the context
// ranks that share the sequence.
Variable convolve_positions(const Variable& x,
                            const Variable& weight,
                            const PositionConvolution& options,
                            const ForwardContext& pass,
                            const ProcessMesh& mesh);

}  // namespace longspan
