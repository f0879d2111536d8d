// The class with the highest score.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// scores: [..., classes], f32 or f64, on any device. The best of each row, [rows] i64 for the host;
// of several the one with the lowest id.
Tensor argmax_classes(const Tensor& scores);

}  // namespace longspan
