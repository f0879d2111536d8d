#include "framework/kernels/elementwise.h"

#include "framework/kernels/element.h"

namespace longspan {

void check_scale_and_add_rows(const Tensor& x, const Tensor& table, const Tensor& y) {
  require_same_shape("scale_and_add_rows", x, y);
  require(x.shape().dimensions() == 3 && table.shape().dimensions() == 2 &&
              x.shape()[1] == table.shape()[0] && x.shape()[2] == table.shape()[1],
          "scale_and_add_rows: expected x [outer, time, width] and a table [time, width], found {} "
          "and {}",
          x.shape().to_string(),
          table.shape().to_string());
  require(table.dtype() == x.dtype() || table.dtype() == accumulator_of(x.dtype()),
          "scale_and_add_rows: expected a table of {} or its accumulator, found {}",
          name_of(x.dtype()),
          name_of(table.dtype()));
}

void check_copy_rows(const Tensor& from,
                     std::int64_t from_begin,
                     const Tensor& to,
                     std::int64_t to_begin,
                     std::int64_t count) {
  const Shape &a = from.shape(), &b = to.shape();
  require(a.dimensions() == 3 && b.dimensions() == 3 && a[0] == b[0] && a[2] == b[2] &&
              from.dtype() == to.dtype(),
          "copy_rows: expected [outer, n, width] and [outer, m, width] of one dtype, found {} {} "
          "and {} {}",
          name_of(from.dtype()),
          a.to_string(),
          name_of(to.dtype()),
          b.to_string());
  require(count >= 0 && from_begin >= 0 && to_begin >= 0 && from_begin + count <= a[1] &&
              to_begin + count <= b[1],
          "copy_rows: rows [{}, {}) of shape {} or rows [{}, {}) of shape {} are out of range",
          from_begin,
          from_begin + count,
          a.to_string(),
          to_begin,
          to_begin + count,
          b.to_string());
}

void check_total(const Tensor& total) {
  require(total.elements() == 1 && (total.dtype() == DType::f32 || total.dtype() == DType::f64),
          "expected a one-element f32 or f64 sum, found {} {}",
          name_of(total.dtype()),
          total.shape());
}

void check_add_column_sums(const Tensor& x, const Tensor& out) {
  require(out.elements() == x.shape().width() &&
              (out.dtype() == x.dtype() || out.dtype() == accumulator_of(x.dtype())),
          "add_column_sums: expected x [rows, width] and out [width] of its dtype or accumulator, "
          "found {} {} and {} {}",
          name_of(x.dtype()),
          x.shape().to_string(),
          name_of(out.dtype()),
          out.shape().to_string());
}

}  // namespace longspan
