// What this machine can do at most, to compare a training step with.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// Floating-point operations a second of a 1024 x 1024 x 1024 matrix product of `dtype` (float64:
// 256 x 256 x 256) with this process's threads, or on a GPU of one that takes a millisecond: the
// best of the runs in about `seconds`.
double matmul_peak(const Device& device, DType dtype, double seconds = 0.1);

}  // namespace longspan
