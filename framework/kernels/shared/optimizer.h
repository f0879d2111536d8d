// Weights, their ranges and their copies in the compute dtype, for the updates of optimizer.h and
// precondition.h.
#pragma once

#include "framework/kernels/element.h"
#include "framework/kernels/optimizer.h"

namespace longspan {

// Throws Failure unless the weight is f32 or f64.
void require_wide(const char* kernel, const Tensor& weight);
void require_like_weight(const char* kernel,
                         const char* name,
                         const Tensor& x,
                         const Tensor& weight);

// Stores a new weight rounded to the compute dtype; no-op if there is none (C is void).
template <typename C>
struct Store {
  C* compute;

  template <typename W>
  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i, W value) const {
    if constexpr (!std::is_void_v<C>) put(compute[i], value);
  }
};

// Calls f(TypeTag<W>, Store) with the weight's type and the type of `compute`.
template <typename F>
void with_weight(const Tensor& weight, const Tensor& compute, const F& f) {
  const auto with_store = [&](auto weight_tag) {
    if (!compute.defined()) return f(weight_tag, Store<void>{nullptr});
    with_floating_type(compute.dtype(),
                       [&]<typename C>(TypeTag<C>) { f(weight_tag, Store<C>{compute.data<C>()}); });
  };
  if (weight.dtype() == DType::f64)
    with_store(TypeTag<double>{});
  else
    with_store(TypeTag<float>{});
}

template <typename F>
void with_range(const OptimizerRange& range, const F& f) {
  with_weight(range.weight, range.compute, f);
}

}  // namespace longspan
