#include "framework/optim/precision_options.h"

#include <cmath>

#include "framework/options/options.h"

namespace longspan {
namespace {

// What is wrong with the keys of the loss scale; nothing where they are as they should be.
std::string problem_of(const PrecisionOptions& options) {
  const LossScaleOptions& given = options.loss_scale;
  const LossScaleOptions standard;
  const auto unused = [](const char* key, const auto& value) {
    return fmt::format(
        "precision.loss_scale.{}: found {}, but only precision.compute_dtype: float16 scales the "
        "loss",
        key,
        value);
  };
  if (options.compute != DType::f16) {
    if (given.initial != standard.initial) return unused("init_scale", given.initial);
    if (given.growth_interval != standard.growth_interval)
      return unused("growth_interval", given.growth_interval);
    if (given.hysteresis != standard.hysteresis) return unused("hysteresis", given.hysteresis);
  }
  int exponent = 0;
  if (std::frexp(given.initial, &exponent) == 0.5) return "";
  return fmt::format(
      "precision.loss_scale.init_scale: found {}; wanted a power of two, which rounds nothing",
      given.initial);
}

}  // namespace

void declare(OptionTable& table, PrecisionOptions& options) {
  table.add("precision.compute_dtype",
            options.compute,
            "type of activations and of the weights in a pass; float64 is for tests",
            {{"float64", DType::f64},
             {"float32", DType::f32},
             {"bfloat16", DType::bf16},
             {"float16", DType::f16}});
  table.add("precision.grad_reduce_dtype",
            options.gradient_reduction,
            "type in which gradients travel to be summed over ranks: float32 as they are, or "
            "bfloat16, half as much",
            {{"float32", DType::f32}, {"bfloat16", DType::bf16}});
  table.add(
      "precision.allow_tf32",
      options.tf32,
      "a GPU may round the factors of float32 products to 10 bits (TF32): faster, less exact; "
      "a CPU does not");
  table.add(
      "precision.loss_scale.init_scale",
      options.loss_scale.initial,
      "the first factor of the gradients of float16, a power of two; it adapts: an overflow halves "
      "it, and the step is skipped without counting as diverged",
      between(LossScaler::least, std::exp2(32)));
  table.add("precision.loss_scale.growth_interval",
            options.loss_scale.growth_interval,
            "steps without an overflow until the loss scale is doubled",
            at_least(1));
  table.add("precision.loss_scale.hysteresis",
            options.loss_scale.hysteresis,
            "overflows until the loss scale is halved; doubling it counts them anew",
            at_least(1));
  table.check({"precision.loss_scale.init_scale",
               "precision.loss_scale.growth_interval",
               "precision.loss_scale.hysteresis",
               "precision.compute_dtype"},
              [&options] { return problem_of(options); });
  table.check({"precision.grad_reduce_dtype", "precision.compute_dtype"}, [&options] {
    return options.compute != DType::f64 || options.gradient_reduction == DType::f32
               ? ""
               : "precision.grad_reduce_dtype: found bfloat16 with precision.compute_dtype: "
                 "float64, whose gradients it would round to 8 bits; set it to float32, which "
                 "leaves them as they are";
  });
}

}  // namespace longspan
