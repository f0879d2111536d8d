#include "framework/kernels/layer_norm.h"

#include "framework/kernels/element.h"
#include "framework/kernels/residual_layer_norm.h"

namespace longspan {
namespace {

void require_vector(const char* kernel,
                    const char* name,
                    const Tensor& vector,
                    std::int64_t length,
                    DType dtype,
                    DType other) {
  require(vector.elements() == length && (vector.dtype() == dtype || vector.dtype() == other),
          "{}: {} is {} {}, wanted {} elements of {}",
          kernel,
          name,
          name_of(vector.dtype()),
          vector.shape().to_string(),
          length,
          name_of(dtype));
}

// `narrows`: of f32, 16 bits will do too.
void require_like(
    const char* kernel, const char* name, const Tensor& y, const Tensor& x, bool narrows = false) {
  const bool narrower =
      narrows && x.dtype() == DType::f32 && (y.dtype() == DType::bf16 || y.dtype() == DType::f16);
  require(y.elements() == x.elements() && (y.dtype() == x.dtype() || narrower),
          "{}: {} is {} {}, x is {} {}, wanted the same number of elements and dtype{}",
          kernel,
          name,
          name_of(y.dtype()),
          y.shape().to_string(),
          name_of(x.dtype()),
          x.shape().to_string(),
          narrows ? ", or 16 bits for f32" : "");
}

}  // namespace

void check(const LayerNorm& norm) {
  const std::int64_t rows = norm.x.shape().rows(), width = norm.x.shape().width();
  const DType dtype = norm.x.dtype(), wide = accumulator_of(dtype);
  require(width > 0, "layer_norm: x has shape {}", norm.x.shape().to_string());
  require_like("layer_norm", "y", norm.y, norm.x, true);
  require_vector("layer_norm", "weight", norm.weight, width, dtype, wide);
  require_vector("layer_norm", "bias", norm.bias, width, dtype, wide);
  require_vector("layer_norm", "mean", norm.mean, rows, wide, wide);
  require_vector("layer_norm", "inverse_deviation", norm.rstd, rows, wide, wide);
}

void check(const LayerNormGradient& norm) {
  const std::int64_t rows = norm.x.shape().rows(), width = norm.x.shape().width();
  const DType dtype = norm.x.dtype(), wide = accumulator_of(dtype);
  require(width > 0, "layer_norm_backward: x has shape {}", norm.x.shape().to_string());
  require_like("layer_norm_backward", "dy", norm.dy, norm.x, true);
  require_like("layer_norm_backward", "dx", norm.dx, norm.x);
  require_vector("layer_norm_backward", "weight", norm.weight, width, dtype, wide);
  require_vector("layer_norm_backward", "mean", norm.mean, rows, wide, wide);
  require_vector("layer_norm_backward", "inverse_deviation", norm.rstd, rows, wide, wide);
  require_vector("layer_norm_backward", "dweight", norm.dweight, width, wide, wide);
  require_vector("layer_norm_backward", "dbias", norm.dbias, width, wide, wide);
}

void check(const Tensor& base, const Dropout& change, const LayerNorm& norm) {
  check(change);
  check(norm);
  require_alike("layer_norm_of_sum", base, norm.x);
  require(change.y.bytes() == norm.x.bytes() && change.x.shape().width() == norm.x.shape().width(),
          "layer_norm_of_sum: what is dropped has shape {} and goes elsewhere than to the norm's "
          "input of shape {}",
          change.x.shape().to_string(),
          norm.x.shape().to_string());
}

void check(const LayerNormGradient& norm, const Dropout& change) {
  check(change);
  check(norm);
  require(change.x.bytes() == norm.dx.bytes() && change.y.bytes() != norm.dx.bytes() &&
              change.x.shape().width() == norm.x.shape().width(),
          "layer_norm_of_sum_backward: a gradient of shape {} is dropped that is not the norm's",
          change.x.shape().to_string());
}

}  // namespace longspan
