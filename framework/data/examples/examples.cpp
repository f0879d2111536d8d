#include "framework/data/examples/examples.h"

#include <algorithm>

namespace longspan {

Tensor full_tensor(const Shape& shape, std::int64_t value) {
  const Tensor field = Tensor::empty(shape, DType::i64, Device::cpu(), MemoryTag::workspace);
  std::ranges::fill(field.span<std::int64_t>(), value);
  return field;
}

std::span<std::int64_t> row_of(const Tensor& field, std::size_t row) {
  const std::size_t columns = static_cast<std::size_t>(field.shape()[1]);
  return field.span<std::int64_t>().subspan(row * columns, columns);
}

}  // namespace longspan
