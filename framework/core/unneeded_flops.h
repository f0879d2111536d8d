// What of the operations counted on a dry device the mathematics does not need.
#pragma once

namespace longspan {

// Among DeviceState::flops() of a dry device, kept with it: what is made a second time, as the
// scores in attention's backward pass, and what nobody reads.
struct RedundantFlops {
  double flops = 0;
};

// Kept with a dry device too: whether only operations are asked for. Attention then makes no lists
// of tiles, which of a very long sequence no machine would hold, and takes no scratch.
struct FlopsOnlyMode {
  bool wanted = false;
};

}  // namespace longspan
