#include "framework/autograd/norms.h"

#include <cmath>

#include "framework/autograd/dtypes.h"
#include "framework/autograd/ops.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/layer_norm.h"
#include "framework/kernels/power_norm.h"
#include "framework/kernels/rows.h"

namespace longspan {

// Layer and RMS normalization of rows, alone or fused with a residual sum.

namespace {

// Options of a norm. Without centering it has no bias.
struct NormOptions {
  Variable weight;
  Variable bias;
  double epsilon;
  bool centered;
};

NormOptions centered_form(const Variable& weight, const Variable& bias, double epsilon) {
  return {.weight = weight, .bias = bias, .epsilon = epsilon, .centered = true};
}
NormOptions rms_form(const Variable& weight, double epsilon) {
  const Tensor& gain = weight.value();
  return {.weight = weight,
          .bias = Variable(Tensor::zeros(gain.shape(), gain.dtype(), gain.device())),
          .epsilon = epsilon,
          .centered = false};
}

// Returns the kernel call, with outputs not yet computed.
LayerNorm norm_of(const Tensor& x, const NormOptions& form, const Tensor& y) {
  const auto statistics = [&] { return empty_accumulator(x, {x.shape().rows()}); };
  return {.x = matrix(x),
          .weight = form.weight.value(),
          .bias = form.bias.value(),
          .y = matrix(y),
          .mean = statistics(),
          .rstd = statistics(),
          .epsilon = form.epsilon,
          .centered = form.centered};
}

// Tensors that the backward pass needs.
struct KeptNorm {
  explicit KeptNorm(const LayerNorm& norm)
      : x(norm.x), weight(norm.weight), mean(norm.mean), rstd(norm.rstd), centered(norm.centered) {}

  // Returns the backward call. The weight and the bias are inputs `first` and first + 1.
  LayerNormGradient gradient(BackwardContext& gradients,
                             std::size_t first,
                             const Tensor& dy,
                             const Tensor& dx,
                             bool add) const {
    const auto sums = [&](std::size_t input) {
      return gradients.needs_gradient(input)
                 ? gradients.accumulate_target(input)
                 : Tensor::zeros(weight.shape(), accumulator_of(x.dtype()), x.device());
    };
    return {.x = x,
            .weight = weight,
            .mean = mean,
            .rstd = rstd,
            .dy = matrix(dy),
            .dx = matrix(dx),
            .dweight = sums(first),
            .dbias = sums(first + 1),
            .add = add,
            .centered = centered};
  }

  Tensor x;
  Tensor weight;
  Tensor mean;
  Tensor rstd;
  bool centered;
};

Variable norm_by(const NormOptions& form, const Variable& x, std::optional<DType> dtype) {
  const Tensor& value = x.value();
  Tensor y = Tensor::empty(value.shape(), dtype.value_or(value.dtype()), value.device());
  const LayerNorm norm = norm_of(value, form, y);
  on(y.device(), [&](auto backend) { layer_norm(backend, norm); });
  return record(std::move(y),
                {x, form.weight, form.bias},
                [kept = KeptNorm(norm)](BackwardContext& gradients) {
                  const Tensor& dy = gradients.output();
                  const GradientTarget dx = gradients.needs_gradient(0)
                                                ? gradients.target(0)
                                                : GradientTarget{.tensor = kept.x.empty_like()};
                  const LayerNormGradient call = kept.gradient(gradients, 1, dy, dx.tensor, dx.add);
                  on(dy.device(), [&](auto backend) { layer_norm_backward(backend, call); });
                });
}

ResidualNorm norm_of_sum_by(const NormOptions& form,
                            const Variable& a,
                            Variable&& x,
                            double rate,
                            const Random& random,
                            const ShardPlacement& placement) {
  require(a.shape() == x.shape(), "cannot add shapes {} and {}", a.shape(), x.shape());
  const Variable added = std::move(x);
  const Tensor sum = a.value().empty_like();
  // `added` itself is one owner of its value.
  const Tensor y = added.value().has_use_count(1) ? added.value() : sum.empty_like();
  const LayerNorm norm = norm_of(sum, form, y);
  Dropout change = {
      .x = added.value(), .y = sum, .rate = rate, .random = random, .placement = placement};
  on(sum.device(), [&](auto backend) { residual_layer_norm(backend, a.value(), change, norm); });
  change.x = change.y = Tensor();
  std::vector<Variable> outputs =
      record({sum, y},
             {a, added, form.weight, form.bias},
             [kept = KeptNorm(norm), change](BackwardContext& gradients) {
               const bool has_sum = gradients.has_output(0), has_norm = gradients.has_output(1);
               // In-place: the gradient of the norm is overwritten by that of the change. If it is
               // the only gradient, it is overwritten by that of the sum.
               const Tensor dnorm = has_norm ? gradients.release_output(1) : Tensor();
               const Tensor dsum = has_sum ? gradients.release_output(0) : dnorm;
               const bool drops = change.rate > 0 && gradients.needs_gradient(1);
               const Tensor dx = !drops ? dsum : (has_sum && has_norm ? dnorm : dsum.empty_like());
               Dropout drop = change;
               drop.x = dsum;
               drop.y = dx;
               LayerNormGradient call;
               if (has_norm) call = kept.gradient(gradients, 2, dnorm, dsum, has_sum);
               on(dsum.device(), [&](auto backend) {
                 if (has_norm && drops)
                   residual_layer_norm_backward(backend, call, drop);
                 else if (has_norm)
                   layer_norm_backward(backend, call);
                 else if (drops)
                   dropout(backend, drop);
               });
               if (gradients.needs_gradient(0)) gradients.set(0, dsum);
               if (gradients.needs_gradient(1)) gradients.set(1, dx);
             });
  return {std::move(outputs[0]), std::move(outputs[1])};
}

}  // namespace

Variable layer_norm(const Variable& x,
                    const Variable& weight,
                    const Variable& bias,
                    double epsilon,
                    std::optional<DType> dtype) {
  return norm_by(centered_form(weight, bias, epsilon), x, dtype);
}

Variable rms_norm(const Variable& x,
                  const Variable& weight,
                  double epsilon,
                  std::optional<DType> dtype) {
  return norm_by(rms_form(weight, epsilon), x, dtype);
}

ResidualNorm residual_layer_norm(const Variable& a,
                                 Variable&& x,
                                 double rate,
                                 const Random& random,
                                 const ShardPlacement& placement,
                                 const Variable& weight,
                                 const Variable& bias,
                                 double epsilon) {
  return norm_of_sum_by(
      centered_form(weight, bias, epsilon), a, std::move(x), rate, random, placement);
}

Variable rms_normalize(const Variable& x, double epsilon) {
  const double width = static_cast<double>(x.shape().width());
  return multiply_scalar(l2_normalize(x, width * epsilon), std::sqrt(width));
}

ResidualNorm residual_rms_norm(const Variable& a,
                               Variable&& x,
                               double rate,
                               const Random& random,
                               const ShardPlacement& placement,
                               const Variable& weight,
                               double epsilon) {
  return norm_of_sum_by(rms_form(weight, epsilon), a, std::move(x), rate, random, placement);
}

namespace {

Tensor zeros_like(const Tensor& x) {
  return Tensor::zeros(x.shape(), x.dtype(), x.device(), MemoryTag::workspace);
}

// Sums dy x inverse over rows, by feature.
Tensor products_of(const PowerNormGradient& call, const Tensor& counted) {
  const Tensor sums = zeros_like(call.inverse);
  on(sums.device(), [&](auto backend) {
    add_product_sums(backend, {.a = call.x, .b = call.dy, .counted = counted, .sums = sums});
    multiply(backend, sums, call.inverse, sums);
  });
  return sums;
}

}  // namespace

Variable power_norm(const Variable& x,
                    const Variable& weight,
                    const Variable& bias,
                    const PowerRows& rows,
                    std::optional<DType> dtype) {
  const Tensor& value = x.value();
  Tensor y = Tensor::empty(value.shape(), dtype.value_or(value.dtype()), value.device());
  const PowerNorm norm = {.x = matrix(value),
                          .inverse = rows.inverse,
                          .weight = weight.value(),
                          .bias = bias.value(),
                          .y = matrix(y)};
  on(y.device(), [&](auto backend) { power_norm(backend, norm); });
  return record(std::move(y),
                {x, weight, bias},
                [from = norm.x, gain = norm.weight, rows](BackwardContext& gradients) {
                  const Tensor dy = matrix(gradients.output());
                  const GradientTarget dx = gradients.needs_gradient(0)
                                                ? gradients.target(0)
                                                : GradientTarget{.tensor = from.empty_like()};
                  PowerNormGradient call = {.x = from,
                                            .inverse = rows.inverse,
                                            .weight = gain,
                                            .dy = dy,
                                            .dx = matrix(dx.tensor),
                                            .add = dx.add};
                  const Device& device = dy.device();
                  if (gradients.needs_gradient(1)) {
                    const Tensor dweight = gradients.accumulate_target(1),
                                 sums = products_of(call, {});
                    on(device, [&](auto backend) { accumulate(backend, 1, sums, dweight); });
                  }
                  if (gradients.needs_gradient(2)) {
                    const Tensor dbias = gradients.accumulate_target(2);
                    on(device, [&](auto backend) { add_column_sums(backend, dy, dbias); });
                  }
                  if (rows.slope) {
                    const Tensor products = products_of(call, rows.counted);
                    on(device, [&](auto backend) { multiply(backend, products, gain, products); });
                    call.counted = rows.counted;
                    call.slope = rows.slope(products);
                  }
                  on(device, [&](auto backend) { power_norm_backward(backend, call); });
                });
}

}  // namespace longspan
