#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/gate.h"

namespace longspan {

template <typename F>
struct InRows {
  std::int64_t width;
  F f;

  __device__ void operator()(std::int64_t i) const { f(i, i % width); }
};

template <typename F>
void for_each_place(Cuda cuda, const Shape& shape, F f) {
  for_each_element(cuda, shape.elements(), InRows<F>{shape.width(), f});
}

void gate(Cuda cuda, const Gating& gating) { gate_on(cuda, gating); }
void gate_backward(Cuda cuda, const GatingGradient& gating) { gate_backward_on(cuda, gating); }

}  // namespace longspan
