#include "framework/nn/positions.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/kernels/elementwise.h"

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
                 const Ranges& positions,
                 std::int64_t width,
                 std::int64_t clamp,
                 DType dtype,
                 const Device& device) {
  const Tensor table = Tensor::empty({count_of(positions), width}, dtype, device.host());
  const std::vector<double> frequency = frequencies(layout, width);
  std::vector<double> row(static_cast<std::size_t>(width));
  on_host(table.device(), [&] {
    with_floating_type(dtype, [&]<typename T>(TypeTag<T>) {
      T* out = table.data<T>();
      for (const Range& range : positions)
        for (std::int64_t p = range.begin; p < range.end; ++p) {
          const std::int64_t position = clamp >= 0 ? std::min(p, clamp) : p;
          fill_row(layout, static_cast<double>(position), frequency, row);
          for (const double value : row)
            *out++ = static_cast<T>(static_cast<Accumulator<T>>(value));
        }
    });
  });
  return table.to(device, MemoryTag::activations);
}

Variable table_rows(const Variable& table, const Ranges& rows) {
  const Shape shape = table.shape();
  const auto block = [](const Tensor& matrix) {
    return matrix.reshape({1, matrix.shape()[0], matrix.shape()[1]});
  };
  Tensor taken =
      Tensor::empty({count_of(rows), shape[1]}, table.value().dtype(), table.value().device());
  const auto for_each_range = [rows](const auto& f) {
    std::int64_t at = 0;
    for (const Range& range : rows) {
      f(range, at);
      at += range.count();
    }
  };
  on(taken.device(), [&](auto backend) {
    for_each_range([&](const Range& range, std::int64_t at) {
      copy_rows(backend, block(table.value()), range.begin, block(taken), at, range.count(), false);
    });
  });
  return record(std::move(taken), {table}, [block, for_each_range](Gradients& gradients) {
    const Tensor& dtaken = gradients.output();
    const Tensor dtable = gradients.target_to_add(0);
    on(dtaken.device(), [&](auto backend) {
      for_each_range([&](const Range& range, std::int64_t at) {
        // The table may collect in a wider dtype.
        accumulate(backend,
                   1.0,
                   dtaken.slice(at, at + range.count()),
                   dtable.slice(range.begin, range.end));
      });
    });
  });
}

}  // namespace longspan
