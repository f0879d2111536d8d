#include "framework/kernels/layer_norm.h"

#include "framework/kernels/element.h"

namespace longspan {
namespace {

void require_vector(const char* kernel,
                    const char* name,
                    const Tensor& vector,
                    std::int64_t length,
                    DType dtype,
                    DType other) {
  require(vector.elements() == length && (vector.dtype() == dtype || vector.dtype() == other),
          "{}: expected {} of {} elements of {}, found {} {}",
          kernel,
          name,
          length,
          name_of(dtype),
          name_of(vector.dtype()),
          vector.shape().to_string());
}

// `narrows`: an f32 tensor may be replaced by one of 16 bits.
void require_like(
    const char* kernel, const char* name, const Tensor& y, const Tensor& x, bool narrows = false) {
  const bool narrower =
      narrows && x.dtype() == DType::f32 && (y.dtype() == DType::bf16 || y.dtype() == DType::f16);
  require(y.elements() == x.elements() && (y.dtype() == x.dtype() || narrower),
          "{}: expected {} of the size and dtype of x, {} {}{}, found {} {}",
          kernel,
          name,
          name_of(x.dtype()),
          x.shape().to_string(),
          narrows ? ", or 16 bits for f32" : "",
          name_of(y.dtype()),
          y.shape().to_string());
}

}  // namespace

void check(const LayerNorm& norm) {
  const std::int64_t rows = norm.x.shape().rows(), width = norm.x.shape().width();
  const DType dtype = norm.x.dtype(), wide = accumulator_of(dtype);
  require(
      width > 0, "layer_norm: expected a width above 0, found x {}", norm.x.shape().to_string());
  require_like("layer_norm", "y", norm.y, norm.x, true);
  require_vector("layer_norm", "weight", norm.weight, width, dtype, wide);
  require_vector("layer_norm", "bias", norm.bias, width, dtype, wide);
  require_vector("layer_norm", "mean", norm.mean, rows, wide, wide);
  require_vector("layer_norm", "inverse_deviation", norm.rstd, rows, wide, wide);
}

void check(const LayerNormGradient& norm) {
  const std::int64_t rows = norm.x.shape().rows(), width = norm.x.shape().width();
  const DType dtype = norm.x.dtype(), wide = accumulator_of(dtype);
  require(width > 0,
          "layer_norm_backward: expected a width above 0, found x {}",
          norm.x.shape().to_string());
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
  require_same_shape("residual_layer_norm", base, norm.x);
  require(
      change.y.bytes() == norm.x.bytes() && change.x.shape().width() == norm.x.shape().width(),
      "residual_layer_norm: expected dropout of shape {} to write the input of the norm, found {}",
      change.x.shape().to_string(),
      norm.x.shape().to_string());
}

void check(const LayerNormGradient& norm, const Dropout& change) {
  check(change);
  check(norm);
  require(change.x.bytes() == norm.dx.bytes() && change.y.bytes() != norm.dx.bytes() &&
              change.x.shape().width() == norm.x.shape().width(),
          "residual_layer_norm_backward: expected dropout of the gradient of the norm, found shape "
          "{}",
          change.x.shape().to_string());
}

}  // namespace longspan
