#include "framework/kernels/rows.h"

namespace longspan {

void check(const MaskPadding& hide) {
  const Shape& x = hide.x.shape();
  require(x.dimensions() > 2 && hide.y.shape() == x && hide.y.dtype() == hide.x.dtype(),
          "hide_rows: expected x and y [batch, time, ...] of one dtype, found {} {} and {} {}",
          name_of(hide.x.dtype()),
          x,
          name_of(hide.y.dtype()),
          hide.y.shape());
  require(0 <= hide.begin && hide.begin <= hide.end && hide.end <= x[1] && hide.position >= 0,
          "hide_rows: rows {} to {} at position {} are out of range for x {}",
          hide.begin,
          hide.end,
          hide.position,
          x);
  require(!hide.length.defined() ||
              (hide.length.dtype() == DType::i64 && hide.length.shape() == Shape{x[0]}),
          "hide_rows: expected length i64 [{}]",
          x[0]);
  if (!hide.padding.defined()) return;
  const Shape& padding = hide.padding.shape();
  require(hide.padding.dtype() == DType::u8 && padding.dimensions() == 2 && padding[0] == x[0] &&
              hide.position + hide.end - hide.begin <= padding[1],
          "hide_rows: padding {} {} does not match x {}",
          name_of(hide.padding.dtype()),
          padding,
          x);
}

}  // namespace longspan
