#include "framework/kernels/outer_rows.h"

namespace longspan {

void check(const OuterRows& outer) {
  const Shape& x = outer.x.shape();
  const Shape& z = outer.z.shape();
  const Shape& y = outer.y.shape();
  require(x.rows() == z.rows() && x.rows() == y.rows() && y.width() <= x.width() * z.width() &&
              outer.x.dtype() == outer.z.dtype() && outer.x.dtype() == outer.y.dtype(),
          "outer_rows: x is {} {}, z {} {} and y {} {}",
          name_of(outer.x.dtype()),
          x,
          name_of(outer.z.dtype()),
          z,
          name_of(outer.y.dtype()),
          y);
}

void check(const OuterRowsGradient& outer) {
  check(OuterRows{.x = outer.x, .z = outer.z, .y = outer.dy});
  require(outer.dx.elements() == outer.x.elements() && outer.dx.dtype() == outer.x.dtype() &&
              outer.dz.elements() == outer.z.elements() && outer.dz.dtype() == outer.z.dtype(),
          "outer_rows_backward: dx is {} {} and dz {} {}",
          name_of(outer.dx.dtype()),
          outer.dx.shape(),
          name_of(outer.dz.dtype()),
          outer.dz.shape());
}

}  // namespace longspan
