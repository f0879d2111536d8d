#include "framework/kernels/shared/optimizer.h"

namespace longspan {
namespace {

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

}  // namespace

void check(const char* kernel, const OptimizerRange& range) {
  const DType dtype = range.weight.dtype();
  require(dtype == DType::f32 || dtype == DType::f64,
          "{}: the weight is {}, wanted f32 or f64",
          kernel,
          name_of(dtype));
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

}  // namespace longspan
