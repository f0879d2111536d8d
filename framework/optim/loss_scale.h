// The factor that lifts f16 gradients into the range that f16 can hold.
#pragma once

#include <cstdint>

#include "checkpoints/training_state.h"

namespace longspan {

struct LossScaleOptions {
  double initial = 65536;               // precision.loss_scale.init_scale: a power of two
  std::int64_t growth_interval = 2000;  // precision.loss_scale.growth_interval: good steps
  std::int64_t hysteresis = 2;          // precision.loss_scale.hysteresis: overflows
};

// Dynamic loss scaling by Megatron-LM's rule. The backward pass starts from the scale instead of
// from 1; what comes out is divided by it in f32. After `growth_interval` good steps without an
// overflow between them the scale is doubled and `hysteresis` overflows are forgiven anew; each
// overflow uses one up, and from the last on each halves the scale, down to 1. All ranks call it
// with the same outcome, so that they have the same scale. Powers of two: it rounds nothing.
class LossScaler {
 public:
  static constexpr double least = 1;

  explicit LossScaler(const LossScaleOptions& options)
      : options_(options), value_(options.initial), hysteresis_left_(options.hysteresis) {}

  double value() const { return value_; }
  // After a step: whether its loss and its whole gradient were finite on all ranks.
  void update(bool finite);

  // The scalars "loss_scale/...". A checkpoint of another compute type has none: nothing is taken.
  void save(Scalars& scalars) const;
  void restore(const Scalars& scalars);

 private:
  LossScaleOptions options_;
  double value_;
  std::int64_t good_steps_ = 0;   // since the last overflow or growth
  std::int64_t hysteresis_left_;  // overflows left until the scale falls
};

}  // namespace longspan
