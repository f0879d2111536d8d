// Optimizer updates, fused over flat ranges of weights.
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// Arguments shared by all updates. weight: f32 or f64, updated. gradient: same dtype and length,
// read. Each gradient element is first multiplied by gradient_factor (clipping, loss scale).
// compute: undefined, or a tensor of a narrower dtype that receives the rounded new weights.
struct OptimizerRange {
  Tensor weight;
  Tensor gradient;
  Tensor compute = {};
  double gradient_factor = 1;
  double learning_rate = 0;
  double weight_decay = 0;
};

// Adam (Kingma & Ba 2015) and AdamW (Loshchilov & Hutter 2019). first, second: moments, updated.
// Steps count from 1.
//   weight -= learning_rate * m_hat / (sqrt(v_hat) + epsilon)
// If decoupled, this is preceded by
//   weight *= 1 - learning_rate * weight_decay
// and otherwise weight_decay * weight is added to the gradient. `rectification` multiplies the
// learning rate of the first line. Without `adapts` its denominator is 1 (RAdam, Liu et al. 2020).
struct AdamUpdate {
  OptimizerRange range;
  Tensor first;
  Tensor second;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::int64_t step = 1;
  bool decoupled = true;
  double rectification = 1;
  bool adapts = true;
};
void adam_update(Cpu, const AdamUpdate&);
void adam_update(Cuda, const AdamUpdate&);

// b = momentum * b + g (b = g at step 1); weight -= learning_rate * b, or * (g + momentum * b) with
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

// Lion (Chen et al. 2023). first: the moment, updated.
//   weight -= learning_rate * (sign(beta1 * first + (1 - beta1) * g) + weight_decay * weight)
//   first = beta2 * first + (1 - beta2) * g
// The sign of 0 is 0.
struct LionUpdate {
  OptimizerRange range;
  Tensor first;
  double beta1 = 0.9;
  double beta2 = 0.99;
};
void lion_update(Cpu, const LionUpdate&);
void lion_update(Cuda, const LionUpdate&);

// Adagrad (Duchi et al. 2011), with weight_decay * weight added to g. sum: accumulated squares,
// updated.
//   sum += g^2
//   weight -= learning_rate * g / (sqrt(sum) + epsilon)
struct AdagradUpdate {
  OptimizerRange range;
  Tensor sum;
  double epsilon = 1e-10;
};
void adagrad_update(Cpu, const AdagradUpdate&);
void adagrad_update(Cuda, const AdagradUpdate&);

// Schedule-free AdamW (Defazio et al. 2024, algorithm 1). range.weight: the average x of the fast
// weights; fast: z; second: second moment. All are updated. The gradient must be evaluated at
//   y = beta1 * x + (1 - beta1) * z
// and with rate = learning_rate sqrt(1 - beta2^step):
//   z -= rate * (g / (sqrt(second) + epsilon) + weight_decay * y)
//   x += share * (z - x)
// range.compute receives the y of the next step, rounded: any floating dtype.
struct ScheduleFreeUpdate {
  OptimizerRange range;
  Tensor fast;
  Tensor second;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double share = 1;
  std::int64_t step = 1;
};
void schedule_free_update(Cpu, const ScheduleFreeUpdate&);
void schedule_free_update(Cuda, const ScheduleFreeUpdate&);

// out = share * a + (1 - share) * b, rounded. a, b: same dtype, f32 or f64; out: any floating
// dtype, the same number of elements.
void interpolate(Cpu, double share, const Tensor& a, const Tensor& b, const Tensor& out);
void interpolate(Cuda, double share, const Tensor& a, const Tensor& b, const Tensor& out);

// Throws Failure if dtypes or lengths do not match the comments above.
void check(const char* kernel, const OptimizerRange& range);
void check(const AdamUpdate& update);
void check(const SgdUpdate& update);
void check(const LionUpdate& update);
void check(const AdagradUpdate& update);
void check(const ScheduleFreeUpdate& update);
void check_interpolate(const Tensor& a, const Tensor& b, const Tensor& out);

}  // namespace longspan
