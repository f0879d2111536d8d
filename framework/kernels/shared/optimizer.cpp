#include "framework/kernels/shared/optimizer.h"

namespace longspan {

void require_like_weight(const char* kernel,
                         const char* name,
                         const Tensor& x,
                         const Tensor& weight) {
  require(x.defined() && x.elements() == weight.elements() && x.dtype() == weight.dtype(),
          "{}: {} is {} {}, the weight {} {}, wanted the same dtype and length",
          kernel,
          name,
          name_of(x.dtype()),
          x.shape().to_string(),
          name_of(weight.dtype()),
          weight.shape().to_string());
}

void require_wide(const char* kernel, const Tensor& weight) {
  require(weight.dtype() == DType::f32 || weight.dtype() == DType::f64,
          "{}: the weight is {}, wanted f32 or f64",
          kernel,
          name_of(weight.dtype()));
}

namespace {

void require_floating(const char* kernel, const Tensor& out, const Tensor& weight) {
  require(is_floating(out.dtype()) && out.elements() == weight.elements(),
          "{}: what is written is {} {}, the weight {}, wanted as many of a floating dtype",
          kernel,
          name_of(out.dtype()),
          out.shape().to_string(),
          weight.shape().to_string());
}

}  // namespace

void check(const char* kernel, const OptimizerRange& range) {
  const DType dtype = range.weight.dtype();
  require_wide(kernel, range.weight);
  require_like_weight(kernel, "gradient", range.gradient, range.weight);
  if (range.compute.defined())
    require(is_floating(range.compute.dtype()) && size_of(range.compute.dtype()) < size_of(dtype) &&
                range.compute.elements() == range.weight.elements(),
            "{}: compute is {} {}, the weight {} {}, wanted as many of a narrower dtype",
            kernel,
            name_of(range.compute.dtype()),
            range.compute.shape().to_string(),
            name_of(dtype),
            range.weight.shape().to_string());
}

void check(const AdamUpdate& update) {
  check("adam_update", update.range);
  require_like_weight("adam_update", "first", update.first, update.range.weight);
  require_like_weight("adam_update", "second", update.second, update.range.weight);
  require(update.step >= 1, "adam_update: step is {}, wanted at least 1", update.step);
}

void check(const SgdUpdate& update) {
  check("sgd_update", update.range);
  require(update.step >= 1, "sgd_update: step is {}, wanted at least 1", update.step);
  if (update.momentum != 0)
    require_like_weight("sgd_update", "buffer", update.buffer, update.range.weight);
}

void check(const LionUpdate& update) {
  check("lion_update", update.range);
  require_like_weight("lion_update", "first", update.first, update.range.weight);
}

void check(const AdagradUpdate& update) {
  check("adagrad_update", update.range);
  require_like_weight("adagrad_update", "sum", update.sum, update.range.weight);
}

void check(const ScheduleFreeUpdate& update) {
  constexpr const char* kernel = "schedule_free_update";
  const Tensor& weight = update.range.weight;
  require_wide(kernel, weight);
  require_like_weight(kernel, "gradient", update.range.gradient, weight);
  require_like_weight(kernel, "fast", update.fast, weight);
  require_like_weight(kernel, "second", update.second, weight);
  require(update.step >= 1, "{}: step is {}, wanted at least 1", kernel, update.step);
  if (update.range.compute.defined()) require_floating(kernel, update.range.compute, weight);
}

void check_interpolate(const Tensor& a, const Tensor& b, const Tensor& out) {
  require_wide("interpolate", a);
  require_like_weight("interpolate", "b", b, a);
  require(out.defined(), "interpolate: there is nothing to write to");
  require_floating("interpolate", out, a);
}

}  // namespace longspan
