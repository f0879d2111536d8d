// Argmax over class scores.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// Returns the argmax of each row, [rows] i64 on the host; ties resolve to the lowest id. scores:
// [..., classes], f32 or f64, on any device.
Tensor argmax_classes(const Tensor& scores);

}  // namespace longspan
