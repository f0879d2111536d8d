// What of the operations counted on a dry device the mathematics does not need.
#pragma once

namespace longspan {

// Among DeviceState::flops() of a dry device, kept with it: what is made a second time, as the
// scores in attention's backward pass, and what nobody reads.
struct UnneededFlops {
  double flops = 0;
};

}  // namespace longspan
