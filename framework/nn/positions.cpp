#include "framework/nn/positions.h"

#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
Tensor sinusoids(SinusoidLayout layout,
                 const Ranges& positions,
                 std::int64_t width,
                 std::int64_t clamp,
                 DType dtype,
                 const Device& device) {
  const Tensor table = Tensor::empty({total_count(positions), width}, dtype, device);
  std::int64_t row = 0;
  for (const Range& range : positions) {
    const Sinusoids part = {.layout = layout,
                            .first = range.begin,
                            .clamp = clamp,
                            .out = table.slice(row, row + range.count())};
    on(device, [&](auto backend) { fill_sinusoids(backend, part); });
    row += range.count();
  }
  return table;
}

Variable table_rows(const Variable& table, const Ranges& rows) {
  const Shape shape = table.shape();
  const auto block = [](const Tensor& matrix) {
    return matrix.reshape({1, matrix.shape()[0], matrix.shape()[1]});
  };
  Tensor taken =
      Tensor::empty({total_count(rows), shape[1]}, table.value().dtype(), table.value().device());
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
  return record(std::move(taken), {table}, [block, for_each_range](BackwardContext& gradients) {
    const Tensor& dtaken = gradients.output();
    const Tensor dtable = gradients.accumulate_target(0);
    on(dtaken.device(), [&](auto backend) {
      for_each_range([&](const Range& range, std::int64_t at) {
        // The table may accumulate in a wider dtype.
        accumulate(backend,
                   1.0,
                   dtaken.slice(at, at + range.count()),
                   dtable.slice(range.begin, range.end));
      });
    });
  });
}

}  // namespace longspan
