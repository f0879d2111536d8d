#include "framework/kernels/l2_normalize.h"

namespace longspan {
namespace {

void require_lengths(const char* kernel, const Tensor& rows, const Tensor& inverse_length) {
  require(inverse_length.dtype() == accumulator_of(rows.dtype()) &&
              inverse_length.elements() == rows.shape().rows(),
          "{}: {} {} lengths do not match rows {} {}",
          kernel,
          inverse_length.elements(),
          name_of(inverse_length.dtype()),
          name_of(rows.dtype()),
          rows.shape().to_string());
}

}  // namespace

void check(const L2Normalize& unit) {
  require_lengths("l2_normalize", unit.x, unit.inverse_norm);
  require(unit.y.dtype() == unit.x.dtype() && unit.y.elements() == unit.x.elements(),
          "l2_normalize: x {} {} does not match y {} {}",
          name_of(unit.x.dtype()),
          unit.x.shape().to_string(),
          name_of(unit.y.dtype()),
          unit.y.shape().to_string());
}

void check(const L2NormalizeGradient& unit) {
  require_lengths("l2_normalize_backward", unit.y, unit.inverse_norm);
  const DType dtype = unit.dy.dtype();
  require((dtype == unit.y.dtype() || dtype == accumulator_of(unit.y.dtype())) &&
              unit.dx.dtype() == dtype && unit.dx.elements() == unit.y.elements() &&
              unit.dy.elements() == unit.y.elements(),
          "l2_normalize_backward: y {} {}, dy {} {} and dx {} {} do not match",
          name_of(unit.y.dtype()),
          unit.y.shape().to_string(),
          name_of(dtype),
          unit.dy.shape().to_string(),
          name_of(unit.dx.dtype()),
          unit.dx.shape().to_string());
}

}  // namespace longspan
