#include "framework/interop/tensor_pair.h"

#include <algorithm>
#include <cstring>

namespace longspan {
namespace {

// Returns the number of rows before tensor `index`.
std::int64_t rows_before(const std::vector<Shape>& here, std::size_t index) {
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < index; ++i) rows += here[i][0];
  return rows;
}

// Calls f(offset there, offset in the part, contiguous elements) for copies that cover the part. A
// transposed matrix is traversed in small tiles, one element per copy.
template <typename F>
void for_each_piece(const TensorPair& pair,
                    const std::vector<Shape>& here,
                    std::size_t index,
                    const F& f) {
  const std::int64_t before = rows_before(here, index);
  const std::int64_t rows = here[index][0];
  const std::int64_t width = rows == 0 ? 0 : here[index].elements() / rows;
  if (pair.orientation == Orientation::same) return f(before * width, 0, rows * width);
  constexpr std::int64_t side = 32;
  const std::int64_t all_rows = rows_before(here, here.size());
  for (std::int64_t top = 0; top < rows; top += side)
    for (std::int64_t left = 0; left < width; left += side)
      for (std::int64_t column = left; column < std::min(left + side, width); ++column)
        for (std::int64_t row = top; row < std::min(top + side, rows); ++row)
          f(column * all_rows + before + row, row * width + column, 1);
}

template <typename T>
void copy_part(const TensorPair& pair,
               const std::vector<Shape>& here,
               std::size_t index,
               const Tensor& there,
               const Tensor& part,
               bool to_part) {
  T* const whole = there.data<T>();
  T* const piece = part.data<T>();
  for_each_piece(pair, here, index, [&](std::int64_t place, std::int64_t own, std::int64_t count) {
    if (to_part)
      std::copy_n(whole + place, count, piece + own);
    else
      std::copy_n(piece + own, count, whole + place);
  });
}

}  // namespace

Shape hf_shape(const TensorPair& pair, const std::vector<Shape>& here) {
  const Shape whole = here.front().with(0, rows_before(here, here.size()));
  for (const Shape& shape : here)
    require(shape.with(0, whole[0]) == whole, "\"{}\": shapes of its parts differ", pair.hf_name);
  if (!pair.shape.empty()) {
    const Shape other(pair.shape);
    require(here.size() == 1 && other.elements() == whole.elements() &&
                pair.orientation == Orientation::same,
            "\"{}\": number of elements differs",
            pair.hf_name);
    return other;
  }
  if (pair.orientation == Orientation::same) return whole;
  require(whole.dimensions() == 2, "\"{}\" is not a matrix", pair.hf_name);
  return {whole[1], whole[0]};
}

Tensor shard_range(const TensorPair& pair,
                   const Tensor& there,
                   const std::vector<Shape>& here,
                   std::size_t index) {
  if (here.size() == 1 && pair.orientation == Orientation::same) return there.reshape(here.front());
  Tensor part = Tensor::empty(here[index], there.dtype(), there.device(), MemoryTag::workspace);
  if (there.dtype() == DType::f64)
    copy_part<double>(pair, here, index, there, part, true);
  else
    copy_part<float>(pair, here, index, there, part, true);
  return part;
}

void put_part(const TensorPair& pair,
              const Tensor& part,
              const std::vector<Shape>& here,
              std::size_t index,
              const Tensor& there) {
  if (there.dtype() == DType::f64)
    copy_part<double>(pair, here, index, there, part, false);
  else
    copy_part<float>(pair, here, index, there, part, false);
}

}  // namespace longspan
