#include "framework/tasks/padded_rows.h"

#include <algorithm>

namespace longspan {

PaddedRows padded_rows(std::span<const std::vector<std::int64_t>* const> rows, const Device& host) {
  std::size_t longest = 1;
  for (const auto* row : rows) longest = std::max(longest, row->size());
  const auto count = std::ssize(rows);
  PaddedRows result = {
      Tensor::zeros(
          {count, static_cast<std::int64_t>(longest)}, DType::i64, host, MemoryTag::workspace),
      Tensor::zeros({count}, DType::i64, host, MemoryTag::workspace)};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& row = *rows[static_cast<std::size_t>(i)];
    std::ranges::copy(row, result.ids.slice(i, i + 1).span<std::int64_t>().begin());
    result.lengths.span<std::int64_t>()[static_cast<std::size_t>(i)] = std::ssize(row);
  }
  return result;
}

}  // namespace longspan
