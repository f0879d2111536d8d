// Backend-independent zeroing of padding rows. The backend provides `for_each_element`.
#pragma once

#include "framework/kernels/element.h"
#include "framework/kernels/mask_padding.h"

namespace longspan {

template <typename T>
struct HideElement {
  std::int64_t rows, row, time, begin, width, position, positions;
  const std::int64_t* length;
  const std::uint8_t* padding;
  const T* x;
  T* y;

  explicit HideElement(const MaskPadding& hide)
      : rows(hide.end - hide.begin),
        row(hide.x.elements() / hide.x.shape()[0] / hide.x.shape()[1]),
        time(hide.x.shape()[1]),
        begin(hide.begin),
        width(rows * row),
        position(hide.position),
        positions(hide.padding.defined() ? hide.padding.shape()[1] : 0),
        length(hide.length.defined() ? hide.length.data<std::int64_t>() : nullptr),
        padding(hide.padding.defined() ? hide.padding.data<std::uint8_t>() : nullptr),
        x(hide.x.data<T>()),
        y(hide.y.data<T>()) {}

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t b = i / width, within = i % width;
    const std::int64_t at = position + within / row;
    const std::int64_t element = (b * time + begin) * row + within;
    const bool late = length != nullptr && at >= length[b];
    const bool hidden = padding != nullptr && padding[b * positions + at] != 0;
    y[element] = late || hidden ? T(Accumulator<T>{0}) : x[element];
  }
};

template <typename Backend>
void hide_rows_on(Backend backend, const MaskPadding& hide) {
  check(hide);
  if (hide.x.elements() == 0) return;
  with_floating_type(hide.x.dtype(), [&](auto tag) {
    const HideElement<typename decltype(tag)::type> element(hide);
    for_each_element(backend, hide.x.shape()[0] * element.width, element);
  });
}

}  // namespace longspan
