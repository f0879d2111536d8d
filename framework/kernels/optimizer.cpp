#include "framework/kernels/optimizer.h"

#include "framework/kernels/shared/optimizer.h"

namespace longspan {

void require_like_weight(const char* kernel,
                         const char* name,
                         const Tensor& x,
                         const Tensor& weight) {
  require(x.defined() && x.elements() == weight.elements() && x.dtype() == weight.dtype(),
          "{}: expected {} of the dtype and length of the weight, found {} {} and {} {}",
          kernel,
          name,
          name_of(x.dtype()),
          x.shape().to_string(),
          name_of(weight.dtype()),
          weight.shape().to_string());
}

void require_wide(const char* kernel, const Tensor& weight) {
  require(weight.dtype() == DType::f32 || weight.dtype() == DType::f64,
          "{}: expected an f32 or f64 weight, found {}",
          kernel,
          name_of(weight.dtype()));
}

namespace {

void require_floating(const char* kernel, const Tensor& out, const Tensor& weight) {
  require(is_floating(out.dtype()) && out.elements() == weight.elements(),
          "{}: expected an output of the weight's size {} and a floating-point dtype, found {} {}",
          kernel,
          weight.shape().to_string(),
          name_of(out.dtype()),
          out.shape().to_string());
}

}  // namespace

void check(const char* kernel, const OptimizerRange& range) {
  const DType dtype = range.weight.dtype();
  require_wide(kernel, range.weight);
  require_like_weight(kernel, "gradient", range.gradient, range.weight);
  if (range.compute.defined())
    require(is_floating(range.compute.dtype()) && size_of(range.compute.dtype()) < size_of(dtype) &&
                range.compute.elements() == range.weight.elements(),
            "{}: expected a compute weight of the size and a narrower dtype than {} {}, found {} "
            "{}",
            kernel,
            name_of(dtype),
            range.weight.shape().to_string(),
            name_of(range.compute.dtype()),
            range.compute.shape().to_string());
}

void check(const AdamUpdate& update) {
  check("adam_update", update.range);
  require_like_weight("adam_update", "first", update.first, update.range.weight);
  require_like_weight("adam_update", "second", update.second, update.range.weight);
  require(update.step >= 1, "adam_update: expected step of at least 1, found {}", update.step);
}

void check(const SgdUpdate& update) {
  check("sgd_update", update.range);
  require(update.step >= 1, "sgd_update: expected step of at least 1, found {}", update.step);
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
  require(update.step >= 1, "{}: expected step of at least 1, found {}", kernel, update.step);
  if (update.range.compute.defined()) require_floating(kernel, update.range.compute, weight);
}

void check_interpolate(const Tensor& a, const Tensor& b, const Tensor& out) {
  require_wide("interpolate", a);
  require_like_weight("interpolate", "b", b, a);
  require(out.defined(), "interpolate: out is missing");
  require_floating("interpolate", out, a);
}

}  // namespace longspan
