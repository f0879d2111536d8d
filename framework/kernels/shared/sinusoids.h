// Backend-independent sinusoidal encodings. The backend provides `for_each_element`.
#pragma once

#include <cmath>

#include "framework/kernels/element.h"
#include "framework/kernels/sinusoids.h"

namespace longspan {

// Item i is the sine and the cosine of one angle.
template <typename T>
struct SinusoidPair {
  SinusoidLayout layout;
  std::int64_t first, clamp, width;
  T* out;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t pairs = (width + 1) / 2, half = width / 2;
    const std::int64_t row = i / pairs, m = i % pairs;
    T* const to = out + row * width;
    const bool alternate = layout == SinusoidLayout::interleaved;
    if (m == half) return put(to[width - 1], 0.0);  // odd width
    const std::int64_t steps = half > 2 ? half - 1 : 1;
    const double exponent = layout == SinusoidLayout::halves_geometric
                                ? static_cast<double>(m) / static_cast<double>(steps)
                                : 2 * static_cast<double>(m) / static_cast<double>(width);
    const std::int64_t position = clamp >= 0 && first + row > clamp ? clamp : first + row;
    const double angle = static_cast<double>(position) * pow(10000.0, -exponent);
    const std::int64_t sine = alternate ? 2 * m : m, cosine = alternate ? 2 * m + 1 : half + m;
    put(to[sine], sin(angle));
    put(to[cosine], cos(angle));
  }
};

template <typename Backend>
void fill_sinusoids_on(Backend backend, const Sinusoids& sinusoids) {
  const std::int64_t rows = sinusoids.out.shape().rows(), width = sinusoids.out.shape().width();
  with_floating_type(sinusoids.out.dtype(), [&]<typename T>(TypeTag<T>) {
    for_each_element(
        backend,
        rows * ((width + 1) / 2),
        SinusoidPair<T>{
            sinusoids.layout, sinusoids.first, sinusoids.clamp, width, sinusoids.out.data<T>()});
  });
}

}  // namespace longspan
