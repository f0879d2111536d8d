#include "framework/data/examples/examples.h"

#include <algorithm>
#include <cstring>

#include "framework/core/error.h"

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

void ExampleIndex::add(std::int64_t offset, std::int64_t tokens, std::string_view place) {
  if (tokens > max_tokens)
    throw DataError("{}: expected at most {} tokens, found {}", place, max_tokens, tokens);
  if (offset > max_offset)
    throw DataError("{}: expected a file of at most {} bytes, found an example at byte {}",
                    place,
                    max_offset + 1,
                    offset);
  require(offset >= 0 && tokens >= 0, "invalid example: {} tokens at byte {}", tokens, offset);
  constexpr std::uint64_t offset_bits = max_offset;
  constexpr std::uint64_t token_bits = max_tokens;
  entries_.push_back({static_cast<std::uint64_t>(offset) & offset_bits,
                      static_cast<std::uint64_t>(tokens) & token_bits});
}

std::string ExampleIndex::bytes() const {
  std::string result(sizeof(end_) + entries_.size() * sizeof(Entry), '\0');
  std::memcpy(result.data(), &end_, sizeof(end_));
  if (!entries_.empty())
    std::memcpy(result.data() + sizeof(end_), entries_.data(), result.size() - sizeof(end_));
  return result;
}

ExampleIndex ExampleIndex::from_bytes(std::string_view bytes) {
  ExampleIndex index;
  require(bytes.size() >= sizeof(end_) && (bytes.size() - sizeof(end_)) % sizeof(Entry) == 0,
          "invalid index size: {} bytes",
          bytes.size());
  std::memcpy(&index.end_, bytes.data(), sizeof(end_));
  index.entries_.resize((bytes.size() - sizeof(end_)) / sizeof(Entry));
  if (!index.entries_.empty())
    std::memcpy(index.entries_.data(), bytes.data() + sizeof(end_), bytes.size() - sizeof(end_));
  return index;
}

}  // namespace longspan
