#include "framework/kernels/transpose.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void transpose(Cpu, const Tensor& x, const Tensor& y) {
  check_transpose(x, y);
  const std::int64_t rows = x.shape()[1];
  const std::int64_t columns = x.shape()[2];
  // Processes a band of y's rows by a band of its columns, so that both sides stay in the cache.
  constexpr std::int64_t band = 32;
  const std::int64_t bands = (columns + band - 1) / band;
  with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
    const T* const from = x.data<T>();
    T* const to = y.data<T>();
    for_rows(x.shape()[0] * bands, rows * band, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t piece = begin; piece < end; ++piece) {
        const std::int64_t matrix = piece / bands * rows * columns;
        const std::int64_t first = piece % bands * band;
        const std::int64_t last = std::min(first + band, columns);
        for (std::int64_t i = 0; i < rows; i += band)
          for (std::int64_t j = first; j < last; ++j)
            for (std::int64_t k = i; k < std::min(i + band, rows); ++k)
              to[matrix + j * rows + k] = from[matrix + k * columns + j];
      }
    });
  });
}

}  // namespace longspan
