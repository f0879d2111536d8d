#include "framework/training_loop/remap_rows.h"

#include <algorithm>
#include <numeric>

namespace longspan {
namespace {

template <typename From, typename To>
void copy_rows(const Tensor& table,
               const StateTensor& piece,
               const Tensor& values,
               const std::vector<std::int64_t>& rows) {
  const std::int64_t width = table.elements() / table.shape()[0];
  const std::int64_t count = values.elements() / values.shape()[0];
  const std::int64_t column = piece.offset.size() > 1 ? piece.offset[1] : 0;
  for (std::int64_t i = 0; i < values.shape()[0]; ++i) {
    const std::int64_t row = rows[static_cast<std::size_t>(piece.offset[0] + i)];
    if (row < 0) continue;
    const From* const from = table.data<From>() + row * width + column;
    std::transform(from, from + count, values.data<To>() + i * count, [](From value) {
      return static_cast<To>(value);
    });
  }
}

}  // namespace

std::vector<std::int64_t> same_rows(std::int64_t count) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  return rows;
}

void gather_rows(const Tensor& table,
                 const std::vector<std::int64_t>& rows,
                 const StateTensor& piece) {
  const Tensor values = piece.tensor.to_host();
  const bool from_wide = table.dtype() == DType::f64;
  const bool to_wide = values.dtype() == DType::f64;
  const auto copy = from_wide ? (to_wide ? copy_rows<double, double> : copy_rows<double, float>)
                              : (to_wide ? copy_rows<float, double> : copy_rows<float, float>);
  copy(table, piece, values, rows);
  if (values.bytes() != piece.tensor.bytes()) piece.tensor.copy_from(values);
}

}  // namespace longspan
