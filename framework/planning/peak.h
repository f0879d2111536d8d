// Peak performance of this machine, for comparison with a training step.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// Returns the peak FLOP/s of square matrix products of `dtype` with this process's threads. Sizes
// go up to 1024 (float64: 256), or on a GPU up to a product of one millisecond. The best of the
// runs in about `seconds` counts.
double matmul_peak(const Device& device, DType dtype, double seconds = 0.1);

}  // namespace longspan
