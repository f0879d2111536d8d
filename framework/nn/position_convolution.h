// Depthwise convolution over the positions of a pass.
#pragma once

#include "framework/autograd/convolution.h"
#include "framework/nn/forward_context.h"

namespace longspan {

struct PositionConvolution {
  Variable bias = {};  // [channels], accumulator dtype
  bool silu = false;
  ConvolutionPadding padding = ConvolutionPadding::left;
  // [batch, time] i64: as in kernels/short_convolution.h. Only with `left`.
  Tensor document_position = {};
  // [batch] i64: number of positions of each row that are not padding, which centered taps do not
  // read. Undefined: all.
  Tensor length = {};
  // Rows before and after a chunk or a decoding step, [batch, taps - 1, 1, channels]. Only `left`.
  ChunkBoundaries state = {};
};

// Returns the convolution of x [batch, time, channels], or silu of it, over all positions that
// ranks share; without `shares` over the rows of x. weight: [channels, taps], accumulator dtype.
// Throws Failure for centered taps with documents. Collective over the ranks that share the
// positions.
Variable convolve_positions(const Variable& x,
                            const Variable& weight,
                            const PositionConvolution& options,
                            const std::optional<SequenceShards>& shares);

// Returns the positions of each context rank in this pass, which may be a chunk of a sequence.
// None if each rank has all of them.
std::optional<SequenceShards> position_shards(const ForwardContext& pass, const ProcessMesh& mesh);

}  // namespace longspan
