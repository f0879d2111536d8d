#include "framework/nn/positions.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace longspan {
namespace {

std::vector<double> frequencies(SinusoidLayout layout, std::int64_t width) {
  std::vector<double> result;
  const double d = static_cast<double>(width);
  // An odd width ends with a sine where they alternate, and with a column of zeros in the halves.
  const std::int64_t count = layout == SinusoidLayout::interleaved ? (width + 1) / 2 : width / 2;
  for (std::int64_t m = 0; m < count; ++m) {
    const double exponent =
        layout == SinusoidLayout::halves_geometric
            ? static_cast<double>(m) / std::max(static_cast<double>(width / 2) - 1, 1.0)
            : 2 * static_cast<double>(m) / d;
    result.push_back(std::pow(10000.0, -exponent));
  }
  return result;
}

void fill_row(SinusoidLayout layout,
              double position,
              const std::vector<double>& frequency,
              std::span<double> row) {
  std::ranges::fill(row, 0.0);
  for (std::size_t m = 0; m < frequency.size(); ++m) {
    const double angle = position * frequency[m];
    const bool alternate = layout == SinusoidLayout::interleaved;
    const std::size_t sine = alternate ? 2 * m : m;
    const std::size_t cosine = alternate ? 2 * m + 1 : frequency.size() + m;
    row[sine] = std::sin(angle);
    if (cosine < row.size()) row[cosine] = std::cos(angle);
  }
}

}  // namespace

Tensor sinusoids(SinusoidLayout layout,
                 std::int64_t first,
                 std::int64_t count,
                 std::int64_t width,
                 std::int64_t clamp,
                 DType dtype,
                 const Device& device) {
  Tensor table = Tensor::empty({count, width}, dtype, device);
  const std::vector<double> frequency = frequencies(layout, width);
  std::vector<double> row(static_cast<std::size_t>(width));
  with_floating_type(dtype, [&]<typename T>(TypeTag<T>) {
    T* out = table.data<T>();
    for (std::int64_t p = 0; p < count; ++p) {
      const std::int64_t position = clamp >= 0 ? std::min(first + p, clamp) : first + p;
      fill_row(layout, static_cast<double>(position), frequency, row);
      for (const double value : row) *out++ = static_cast<T>(static_cast<Accumulator<T>>(value));
    }
  });
  return table;
}

}  // namespace longspan
