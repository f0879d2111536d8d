#include "framework/kernels/power_norm.h"

#include "framework/kernels/element.h"

namespace longspan {
namespace {

constexpr const char* power_norm_kernel = "power norm";

void require_features(const char* name, const Tensor& found, const Tensor& x) {
  require_tensor(power_norm_kernel, name, found, {x.shape().width()}, accumulator_of(x.dtype()));
}

void require_rows(const char* name, const Tensor& found, const Tensor& x) {
  require(found.defined() && found.dtype() == accumulator_of(x.dtype()) &&
              found.elements() == x.shape().rows(),
          "{}: {} {} {} does not match rows {}",
          power_norm_kernel,
          name,
          found.defined() ? name_of(found.dtype()) : "nothing",
          found.defined() ? found.shape().to_string() : "",
          x.shape().to_string());
}

void require_like(const char* name, const Tensor& found, const Tensor& x) {
  require(found.defined() && is_floating(found.dtype()) && found.elements() == x.elements() &&
              found.shape().width() == x.shape().width(),
          "{}: {} {} does not match x {}",
          power_norm_kernel,
          name,
          found.defined() ? found.shape().to_string() : "nothing",
          x.shape().to_string());
}

}  // namespace

void check(const PowerNorm& norm) {
  require_features("inverse", norm.inverse, norm.x);
  require_features("weight", norm.weight, norm.x);
  require_features("bias", norm.bias, norm.x);
  require_like("y", norm.y, norm.x);
}

void check(const PowerNormGradient& norm) {
  require_features("inverse", norm.inverse, norm.x);
  require_features("weight", norm.weight, norm.x);
  require(norm.counted.defined() == norm.slope.defined(),
          "{}: counted requires slope, and slope requires counted",
          power_norm_kernel);
  if (norm.slope.defined()) {
    require_features("slope", norm.slope, norm.x);
    require_rows("counted", norm.counted, norm.x);
  }
  require_like("dy", norm.dy, norm.x);
  require_like("dx", norm.dx, norm.x);
  require(norm.dx.dtype() == norm.x.dtype(),
          "{}: expected dx and x of one dtype, found {} and {}",
          power_norm_kernel,
          name_of(norm.dx.dtype()),
          name_of(norm.x.dtype()));
}

void check(const ProductSums& sums) {
  require_like("b", sums.b, sums.a);
  require_features("sums", sums.sums, sums.a);
  if (sums.counted.defined()) require_rows("counted", sums.counted, sums.a);
}

void check(const CountedRows& rows) {
  const Shape& shape = rows.counted.shape();
  require(
      shape.dimensions() == 2 && 0 <= rows.begin && rows.begin <= rows.end && rows.end <= shape[1],
      "{}: rows [{}, {}) are out of range for {}",
      power_norm_kernel,
      rows.begin,
      rows.end,
      shape.to_string());
  if (rows.length.defined())
    require_tensor(power_norm_kernel, "length", rows.length, {shape[0]}, DType::i64);
}

void check(const PowerStatisticsUpdate& step) {
  for (const auto& [name, found] : {std::pair("slope", step.slope),
                                    std::pair("squares", step.squares),
                                    std::pair("products", step.products)})
    require_tensor(power_norm_kernel, name, found, step.square.shape(), step.square.dtype());
  require_tensor(power_norm_kernel, "count", step.count, {1}, step.square.dtype());
}

}  // namespace longspan
