#include "framework/optim/precision_options.h"

#include <algorithm>
#include <cmath>

#include "framework/options/options.h"

namespace longspan {

namespace {

// Returns why the loss scale is invalid; empty if it is valid.
std::string problem_of(const LossScaleOptions& given) {
  int exponent = 0;
  if (std::frexp(given.initial, &exponent) == 0.5) return "";
  return fmt::format("precision.loss_scale.init_scale: expected a power of two, found {}",
                     given.initial);
}

}  // namespace

void declare(OptionTable& table, PrecisionOptions& options) {
  table.add("precision.compute_dtype",
            options.compute,
            "data type of activations, and of weights in the forward and backward pass; float64 "
            "is for tests",
            {{"float64", DType::f64},
             {"float32", DType::f32},
             {"bfloat16", DType::bf16},
             {"float16", DType::f16}});
  table.add("precision.grad_reduce_dtype",
            options.gradient_reduction,
            "data type of the gradient reduction over ranks: float32, or bfloat16, which halves "
            "the communication",
            {{"float32", DType::f32}, {"bfloat16", DType::bf16}},
            value_excludes("bfloat16", is("precision.compute_dtype", {"float64"})));
  table.add(
      "precision.allow_tf32",
      options.tf32,
      "TF32 (10-bit mantissa) for the factors of float32 products on a GPU: faster, less exact");
  table.add("precision.loss_scale.init_scale",
            options.loss_scale.initial,
            "initial loss scale, a power of two; an overflow halves it and skips the step, which "
            "does not count as divergence",
            between(LossScaler::least, std::exp2(32)),
            needs(is("precision.compute_dtype", {"float16"})));
  table.add("precision.loss_scale.growth_interval",
            options.loss_scale.growth_interval,
            "steps without overflow before the loss scale is doubled",
            at_least(1),
            needs(is("precision.compute_dtype", {"float16"})));
  table.add(
      "precision.loss_scale.hysteresis",
      options.loss_scale.hysteresis,
      "number of overflows before the loss scale is halved, counted again after it is doubled",
      at_least(1),
      needs(is("precision.compute_dtype", {"float16"})));
  table.check({"precision.loss_scale.init_scale"},
              [&options] { return problem_of(options.loss_scale); });
}

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
