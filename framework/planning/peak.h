// What this machine can do at most, to compare a training step with.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// Floating-point operations a second of matrix products of `dtype` with this process's threads, of
// square matrices up to 1024 (float64: 256), or on a GPU up to one that takes a millisecond: the
// best of the runs in about `seconds`.
double matmul_peak(const Device& device, DType dtype, double seconds = 0.1);

}  // namespace longspan
