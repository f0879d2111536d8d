#include "framework/train/precision_options.h"

#include <cmath>

#include "framework/core/options.h"

namespace longspan {
namespace {

// What is wrong with the keys of the loss scale; nothing where they are as they should be.
std::string problem_of(const PrecisionOptions& options) {
  const LossScaleOptions& given = options.loss_scale;
  const LossScaleOptions standard;
  const auto unused = [](const char* key, const auto& value) {
    return fmt::format(
        "precision.{}: found {}, but only precision.compute: f16 scales the loss", key, value);
  };
  if (options.compute != DType::f16) {
    if (given.initial != standard.initial) return unused("loss_scale", given.initial);
    if (given.growth_interval != standard.growth_interval)
      return unused("loss_scale_growth_interval", given.growth_interval);
    if (given.hysteresis != standard.hysteresis)
      return unused("loss_scale_hysteresis", given.hysteresis);
  }
  int exponent = 0;
  if (std::frexp(given.initial, &exponent) == 0.5) return "";
  return fmt::format("precision.loss_scale: found {}; wanted a power of two, which rounds nothing",
                     given.initial);
}

}  // namespace

void declare(OptionTable& table, PrecisionOptions& options) {
  table.add("precision.compute",
            options.compute,
            "type of activations and of the weights in a pass; float64 is for tests",
            {{"float64", DType::f64},
             {"float32", DType::f32},
             {"bf16", DType::bf16},
             {"f16", DType::f16}});
  table.add("precision.gradient_reduction",
            options.gradient_reduction,
            "type in which gradients travel to be summed over ranks: float32 as they are, or bf16, "
            "half as much",
            {{"float32", DType::f32}, {"bf16", DType::bf16}});
  table.add(
      "precision.tf32",
      options.tf32,
      "a GPU may round the factors of float32 products to 10 bits (TF32): faster, less exact; "
      "a CPU does not");
  table.add(
      "precision.loss_scale",
      options.loss_scale.initial,
      "the first factor of the gradients of f16, a power of two; it adapts: an overflow halves "
      "it, and the step is skipped without counting as diverged",
      between(LossScale::least, std::exp2(32)));
  table.add("precision.loss_scale_growth_interval",
            options.loss_scale.growth_interval,
            "steps without an overflow until the loss scale is doubled",
            at_least(1));
  table.add("precision.loss_scale_hysteresis",
            options.loss_scale.hysteresis,
            "overflows until the loss scale is halved; doubling it counts them anew",
            at_least(1));
  table.check({"precision.loss_scale",
               "precision.loss_scale_growth_interval",
               "precision.loss_scale_hysteresis",
               "precision.compute"},
              [&options] { return problem_of(options); });
  table.check({"precision.gradient_reduction", "precision.compute"}, [&options] {
    return options.compute != DType::f64 || options.gradient_reduction == DType::f32
               ? ""
               : "precision.gradient_reduction: found bf16 with precision.compute: float64, whose "
                 "gradients it would round to 8 bits; set it to float32, which leaves them as they "
                 "are";
  });
}

}  // namespace longspan
