#include "framework/optim/loss_scale.h"

#include <algorithm>

namespace longspan {
namespace {

constexpr const char* scale_scalar = "loss_scale/scale";
constexpr const char* growth_tracker_scalar = "loss_scale/growth_tracker";
constexpr const char* hysteresis_scalar = "loss_scale/hysteresis_left";

}  // namespace

void LossScaler::update(bool finite) {
  if (!finite) {
    good_steps_ = 0;
    hysteresis_left_ = std::max<std::int64_t>(hysteresis_left_ - 1, 0);
    if (hysteresis_left_ == 0) value_ = std::max(value_ / 2, least);
    return;
  }
  if (++good_steps_ < options_.growth_interval) return;
  good_steps_ = 0;
  hysteresis_left_ = options_.hysteresis;
  value_ *= 2;
}

void LossScaler::save(Scalars& scalars) const {
  scalars.set(scale_scalar, value_);
  scalars.set(growth_tracker_scalar, good_steps_);
  scalars.set(hysteresis_scalar, hysteresis_left_);
}

void LossScaler::restore(const Scalars& scalars) {
  if (!scalars.has(scale_scalar)) return;
  value_ = scalars.get<double>(scale_scalar);
  good_steps_ = scalars.get<std::int64_t>(growth_tracker_scalar);
  hysteresis_left_ = scalars.get<std::int64_t>(hysteresis_scalar);
}

}  // namespace longspan
