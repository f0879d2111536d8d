// The section `precision` of a configuration.
#pragma once

#include "framework/core/dtype.h"
#include "framework/optim/loss_scale.h"

namespace longspan {

class OptionTable;

struct PrecisionOptions {
  DType compute = DType::f32;  // precision.compute_dtype
  // precision.grad_reduce_dtype: float32 means float64 where computation uses float64.
  DType gradient_reduction = DType::f32;
  LossScaleOptions loss_scale = {};  // with float16
  bool tf32 = false;                 // precision.allow_tf32: for float32 products on a GPU
};

void declare(OptionTable& table, PrecisionOptions& options);

}  // namespace longspan
