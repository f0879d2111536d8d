#include "framework/optim/loss_scale.h"

#include <algorithm>

namespace longspan {
namespace {

constexpr const char* value_scalar = "loss_scale/value";
constexpr const char* good_steps_scalar = "loss_scale/good_steps";
constexpr const char* forgiven_scalar = "loss_scale/forgiven";

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
  scalars.set(value_scalar, value_);
  scalars.set(good_steps_scalar, good_steps_);
  scalars.set(forgiven_scalar, hysteresis_left_);
}

void LossScaler::restore(const Scalars& scalars) {
  if (!scalars.has(value_scalar)) return;
  value_ = scalars.get<double>(value_scalar);
  good_steps_ = scalars.get<std::int64_t>(good_steps_scalar);
  hysteresis_left_ = scalars.get<std::int64_t>(forgiven_scalar);
}

}  // namespace longspan
