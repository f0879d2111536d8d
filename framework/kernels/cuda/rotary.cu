#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/rotary.h"

namespace longspan {

template <typename F>
struct OfHeads {
  std::int64_t items, pairs;
  F f;

  __device__ void operator()(std::int64_t i) const {
    const auto head = f.of(i / items);
    const std::int64_t item = i % items;
    if (item < pairs)
      head.pair(item);
    else
      head.rest(item);
  }
};

template <typename F>
void for_each_of_heads(Cuda cuda, const Shape& shape, std::int64_t pairs, F f) {
  const std::int64_t items = shape[3] - pairs;
  for_each_element(cuda, shape[0] * shape[1] * shape[2] * items, OfHeads<F>{items, pairs, f});
}

void fill_cos_sin_table(Cuda cuda, const CosSinTable& rotations) {
  fill_rotations_on(cuda, rotations);
}
void apply_rotary(Cuda cuda, const RotaryArguments& turning) { turn_on(cuda, turning); }

void fill_sinusoids(Cuda cuda, const Sinusoids& sinusoids) { fill_sinusoids_on(cuda, sinusoids); }

}  // namespace longspan
