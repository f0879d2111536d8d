#include "framework/modeling/model_input.h"

#include <algorithm>

#include "framework/core/async_copy.h"

namespace longspan {

Tensor columns_of(const ModelInput& reading,
                  std::string_view field,
                  const SequenceShard& time,
                  const Device& device) {
  return columns_of(field_of(reading.fields, field), time, device);
}

Tensor columns_of(const Tensor& whole, const SequenceShard& time, const Device& device) {
  const Ranges positions = time.inside();
  const std::int64_t rows = whole.shape()[0];
  const std::int64_t columns = whole.shape()[1];
  if (positions == Ranges{{0, columns}}) return copy_async(whole, device);
  const Tensor result = Tensor::empty(
      {rows, total_count(positions)}, whole.dtype(), whole.device(), MemoryTag::workspace);
  const auto copy = [&]<typename T>(const T* from, T* to) {
    for (std::int64_t row = 0; row < rows; ++row)
      for (const Range& range : positions)
        to = std::copy_n(from + row * columns + range.begin, range.count(), to);
  };
  if (whole.dtype() == DType::f64)
    copy(whole.data<double>(), result.data<double>());
  else
    copy(whole.data<std::int64_t>(), result.data<std::int64_t>());
  return copy_async(result, device);
}

}  // namespace longspan
