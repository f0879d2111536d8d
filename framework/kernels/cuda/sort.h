// Sorting on the device. Its body is a library's.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// sorted = the keys in ascending order, and order[i] = where sorted[i] was among them; equal keys
// stay in their order. keys, sorted, order: [n] i32, apart; keys are read, and are at least 0.
void sort_stably(Cuda, const Tensor& keys, const Tensor& sorted, const Tensor& order);

}  // namespace longspan
