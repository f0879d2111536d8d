#include "framework/modeling/documents.h"

#include <algorithm>

#include "framework/core/async_copy.h"

namespace longspan {
namespace {

constexpr const char* field_name = "document_position";

}  // namespace

Tensor document_lookback(const ModelInput& reading,
                         const SequenceShard& time,
                         const Device& device) {
  if (!reading.fields.contains(field_name)) return {};
  return columns_of(reading, field_name, time, device);
}

Tensor document_positions(const ModelInput& reading,
                          const Ranges& positions,
                          const Device& device) {
  const auto field = reading.fields.find(field_name);
  if (field == reading.fields.end()) return {};
  const Tensor& whole = field->second;
  const std::int64_t rows = whole.shape()[0], columns = whole.shape()[1];
  const Tensor places =
      Tensor::empty({rows, pluralize(positions)}, DType::i64, device.host(), MemoryTag::workspace);
  dispatch_on_host(places.device(), [&] {
    auto* to = places.data<std::int64_t>();
    for (std::int64_t row = 0; row < rows; ++row)
      for (const Range& range : positions)
        for (std::int64_t i = range.begin; i < range.end; ++i)
          *to++ = std::min(whole.data<std::int64_t>()[row * columns + i], i);
  });
  return copy_async(places, device);
}

}  // namespace longspan
