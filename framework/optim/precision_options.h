// The section `precision` of a configuration, and the loss scaler.
#pragma once

#include <cstdint>

#include "checkpoints/training_state.h"
#include "framework/core/dtype.h"

namespace longspan {

// Dynamic loss scaling for f16 gradients.
struct LossScaleOptions {
  double initial = 65536;               // precision.loss_scale.init_scale: a power of two
  std::int64_t growth_interval = 2000;  // precision.loss_scale.growth_interval: good steps
  std::int64_t hysteresis = 2;          // precision.loss_scale.hysteresis: overflows
};

// Dynamic loss scaling as in Megatron-LM. The backward pass starts from the scale instead of 1, and
// gradients are divided by it in f32. After `growth_interval` good steps without overflow the scale
// doubles and the hysteresis resets. Each overflow consumes one unit of hysteresis; once none is
// left, each overflow halves the scale, down to 1. All ranks must call it with the same outcome, so
// that their scales match. Scales are powers of two, so scaling does not round.
class LossScaler {
 public:
  static constexpr double least = 1;

  explicit LossScaler(const LossScaleOptions& options)
      : options_(options), value_(options.initial), hysteresis_left_(options.hysteresis) {}

  double value() const { return value_; }
  // Updates the scale after a step. finite: whether the loss and all gradients were finite on all
  // ranks.
  void update(bool finite);

  // Scalars "loss_scale/...". Ignores checkpoints of other compute types, which have none.
  void save(Scalars& scalars) const;
  void restore(const Scalars& scalars);

 private:
  LossScaleOptions options_;
  double value_;
  std::int64_t good_steps_ = 0;   // since the last overflow or growth
  std::int64_t hysteresis_left_;  // overflows left until the scale falls
};

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
