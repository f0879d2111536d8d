#include "framework/kernels/halting.h"

#include "framework/kernels/cpu/loops.h"
#include "framework/kernels/shared/halting.h"

namespace longspan {

void sum_weight_gradients(Cpu, const JoinRowsGradient& call) {
  with_floating_type(call.x.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const std::int64_t width = call.dy.shape().width();
    const T* const x = call.x.data<T>();
    const A* const dy = call.dy.data<A>();
    const A* const before =
        call.join == StateAccumulation::interpolate ? elements_or_null<A>(call.before) : nullptr;
    A* const dweights = call.dweights.data<A>();
    for_rows(call.weights.elements(), width, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        A sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t c = r * width; c < (r + 1) * width; ++c) sum += dy[c] * wide(x[c]);
        if (before != nullptr) {
#pragma omp simd reduction(+ : sum)
          for (std::int64_t c = r * width; c < (r + 1) * width; ++c) sum -= dy[c] * before[c];
        }
        dweights[r] = sum;
      }
    });
  });
}

}  // namespace longspan
