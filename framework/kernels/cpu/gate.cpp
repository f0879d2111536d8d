#include "framework/kernels/shared/gate.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

template <typename F>
void for_each_place(Cpu, const Shape& shape, F f) {
  const std::int64_t width = shape.width();
  for_rows(shape.rows(), width, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t first = row * width;
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) f(first + c, c);
    }
  });
}

void gate(Cpu cpu, const Gating& gating) { gate_on(cpu, gating); }
void gate_backward(Cpu cpu, const GatingGradient& gating) { gate_backward_on(cpu, gating); }

}  // namespace longspan
