#include "framework/kernels/shared/rotary.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

template <typename F>
void for_each_of_heads(Cpu, const Shape& shape, std::int64_t pairs, F f) {
  const std::int64_t dim = shape[3];
  for_rows(shape.elements() / std::max<std::int64_t>(dim, 1),
           dim,
           [=](std::int64_t begin, std::int64_t end) {
             for (std::int64_t row = begin; row < end; ++row) {
               const auto head = f.of(row);
#pragma omp simd
               for (std::int64_t i = 0; i < pairs; ++i) head.pair(i);
               for (std::int64_t i = pairs; i < dim - pairs; ++i) head.rest(i);
             }
           });
}

void fill_cos_sin_table(Cpu cpu, const CosSinTable& rotations) {
  fill_rotations_on(cpu, rotations);
}
void apply_rotary(Cpu cpu, const RotaryArguments& turning) { turn_on(cpu, turning); }

void fill_sinusoids(Cpu cpu, const Sinusoids& sinusoids) { fill_sinusoids_on(cpu, sinusoids); }

}  // namespace longspan
