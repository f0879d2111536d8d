#include "framework/kernels/monotonic_attention.h"

#include "framework/kernels/element.h"

namespace longspan {

void check(const MonotonicAttention& call) {
  constexpr const char* kernel = "monotonic attention";
  const Shape& shape = call.attention.shape();
  const DType dtype = call.attention.dtype();
  require(shape.dimensions() == 3 && (dtype == DType::f32 || dtype == DType::f64),
          "{}: expected attention f32 or f64 [batch, time, positions], found {} {}",
          kernel,
          name_of(dtype),
          shape.to_string());
  require_tensor(kernel, "source", call.source, {shape[0]}, DType::i64);
  require_tensor(kernel, "target", call.target, {shape[0]}, DType::i64);
  require_tensor(kernel, "walk", call.walk, shape, dtype);
}

}  // namespace longspan
