// FLOPs counted on a dry device that the mathematics does not require.
#pragma once

namespace longspan {

// The redundant part of DeviceState::flops() of a dry device. Counts recomputation, as of the
// scores in attention's backward pass, and results that nothing reads.
struct RedundantFlops {
  double flops = 0;
};

// Attribute of a dry device: whether only FLOPs are counted. Attention then builds no tile lists,
// which would not fit in memory for very long sequences, and allocates no scratch.
struct FlopsOnlyMode {
  bool wanted = false;
};

}  // namespace longspan
