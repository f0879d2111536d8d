#include "framework/kernels/halting.h"

#include "framework/kernels/cpu/loops.h"
#include "framework/kernels/shared/halting.h"

namespace longspan {

void decide_halting(Cpu cpu, const HaltingDecision& call) { decide_halting_on(cpu, call); }
void halting_weights(Cpu cpu, const HaltingWeights& call) { halting_weights_on(cpu, call); }
void halting_weights_backward(Cpu cpu, const HaltingWeightsGradient& call) {
  halting_weights_backward_on(cpu, call);
}
void accumulate_states(Cpu cpu, const JoinRows& call) { join_rows_on(cpu, call); }
void select_rows(Cpu cpu, const ChooseRows& call) { choose_rows_on(cpu, call); }

void join_rows_backward(Cpu cpu, const JoinRowsGradient& call) {
  check(call);
  // Must precede the writes to dbefore, which may alias dy.
  if (call.dweights.defined())
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
  join_rows_backward_on(cpu, call);
}

}  // namespace longspan
