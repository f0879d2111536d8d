#include "framework/kernels/random_features.h"

namespace longspan {
namespace {

void require_rows(
    const char* name, const Tensor& found, std::int64_t rows, std::int64_t width, DType dtype) {
  require(found.defined() && found.dtype() == dtype && found.elements() == rows * width,
          "random features: expected {} {} [{}, {}], found {} {}",
          name,
          name_of(dtype),
          rows,
          width,
          found.defined() ? name_of(found.dtype()) : "nothing",
          found.shape().to_string());
}

}  // namespace

void check(const RandomFeaturesCall& call) {
  const std::int64_t rows = call.x.shape().rows(), count = call.product.shape().width();
  const DType dtype = call.x.dtype(), sums = accumulator_of(dtype);
  require_rows("product", call.product, rows, count, sums);
  require_rows("out", call.out, rows, call.map.features(count), dtype);
  if (call.map.map == RandomMap::softmax) require_rows("shift", call.shift, rows, 1, sums);
}

void check(const RandomFeaturesGradient& call) {
  const std::int64_t rows = call.x.shape().rows(), count = call.dproduct.shape().width();
  const DType dtype = call.x.dtype();
  require_rows("dproduct", call.dproduct, rows, count, dtype);
  require_rows("out", call.out, rows, call.map.features(count), dtype);
  require_rows("dout", call.dout, rows, call.map.features(count), dtype);
  require_rows("dx", call.dx, rows, call.x.shape().width(), dtype);
}

}  // namespace longspan
