// The section `precision` of a configuration.
#pragma once

#include "framework/core/dtype.h"
#include "framework/train/loss_scale.h"

namespace longspan {

class OptionTable;

struct PrecisionOptions {
  DType compute = DType::f32;  // precision.compute
  // precision.gradient_reduction: f32 also stands for f64, where that is computed in.
  DType gradient_reduction = DType::f32;
  LossScaleOptions loss_scale = {};  // with compute f16
  bool tf32 = false;                 // precision.tf32: of float32 products on a GPU
};

void declare(OptionTable& table, PrecisionOptions& options);

}  // namespace longspan
