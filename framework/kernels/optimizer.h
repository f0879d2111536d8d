// Optimizer updates, fused over flat ranges of weights.
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// What all updates share. weight: f32 or f64, updated. gradient: same dtype and length, read; each
// element is multiplied by gradient_factor (clipping, loss scale) first. compute: undefined, or a
// tensor of a narrower dtype that receives the rounded new weights.
struct OptimizerRange {
  Tensor weight;
  Tensor gradient;
  Tensor compute = {};
  double gradient_factor = 1;
  double learning_rate = 0;
  double weight_decay = 0;
};

// Adam (Kingma & Ba 2015) and AdamW (Loshchilov & Hutter 2019). first, second: moments, updated.
// The first step is 1.
//   weight -= learning_rate * m_hat / (sqrt(v_hat) + epsilon)
// Before it, where decoupled:
//   weight *= 1 - learning_rate * weight_decay
// and otherwise weight_decay * weight is added to the gradient.
struct AdamUpdate {
  OptimizerRange range;
  Tensor first;
  Tensor second;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::int64_t step = 1;
  bool decoupled = true;
};
void adam_update(Cpu, const AdamUpdate&);
void adam_update(Cuda, const AdamUpdate&);

// b = momentum * b + g (b = g at step 1); weight -= learning_rate * b, or of g + momentum * b with
// nesterov. weight_decay * weight is added to g. Without momentum `buffer` is undefined.
struct SgdUpdate {
  OptimizerRange range;
  Tensor buffer = {};
  double momentum = 0;
  bool nesterov = false;
  std::int64_t step = 1;
};
void sgd_update(Cpu, const SgdUpdate&);
void sgd_update(Cuda, const SgdUpdate&);

}  // namespace longspan
