// Dynamic loss scaling for f16 gradients.
#pragma once

#include <cstdint>

#include "checkpoints/training_state.h"

namespace longspan {

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

}  // namespace longspan
