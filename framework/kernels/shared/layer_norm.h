// Type dispatch of layer normalization, shared by all backends.
#pragma once

#include "framework/kernels/element.h"

namespace longspan {

// Calls f(TypeTag<T>, TypeTag<Y>) with the types of x and of y, which may be narrower.
template <typename F>
void with_norm_types(const Tensor& x, const Tensor& y, const F& f) {
  with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T> tag) {
    if constexpr (std::is_same_v<T, float>) {
      if (y.dtype() == DType::bf16) return f(tag, TypeTag<BFloat16>());
      if (y.dtype() == DType::f16) return f(tag, TypeTag<Float16>());
    }
    f(tag, tag);
  });
}

}  // namespace longspan
