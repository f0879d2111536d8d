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
  const Tensor places = Tensor::empty(
      {rows, total_count(positions)}, DType::i64, device.host(), MemoryTag::workspace);
  dispatch_on_host(places.device(), [&] {
    auto* to = places.data<std::int64_t>();
    for (std::int64_t row = 0; row < rows; ++row)
      for (const Range& range : positions)
        for (std::int64_t i = range.begin; i < range.end; ++i)
          *to++ = std::min(whole.data<std::int64_t>()[row * columns + i], i);
  });
  return copy_async(places, device);
}

Tensor expired_keys(const ModelInput& reading, const Device& device) {
  const std::int64_t carried = reading.carried.length();
  const auto field = reading.fields.find("earlier");
  const bool are_separate = reading.fields.contains("episodes");
  if (carried == 0 || field == reading.fields.end() || are_separate) return {};
  const Tensor& earlier = field->second;
  const std::int64_t keys = carried + reading.time();
  const Tensor forgotten =
      Tensor::empty({reading.rows(), keys}, DType::u8, device.host(), MemoryTag::workspace);
  dispatch_on_host(forgotten.device(), [&] {
    for (std::int64_t row = 0; row < reading.rows(); ++row) {
      const std::int64_t seen = std::min(earlier.data<std::int64_t>()[row], carried);
      std::uint8_t* const of_row = forgotten.data<std::uint8_t>() + row * keys;
      std::fill_n(of_row, carried - seen, std::uint8_t{1});
      std::fill(of_row + carried - seen, of_row + keys, std::uint8_t{0});
    }
  });
  return copy_async(forgotten, device);
}

std::optional<SortedSequence> separate_episodes(const ModelInput& reading,
                                                std::int64_t heads,
                                                const Device& device) {
  const auto field = reading.fields.find("episodes");
  if (field == reading.fields.end()) return std::nullopt;
  const Tensor& episodes = field->second;
  const Tensor& earlier = field_of(reading.fields, "earlier");
  const std::int64_t rows = reading.rows(), time = reading.time();
  const std::int64_t carried = reading.carried.length();
  const auto integers = [&](std::int64_t positions) {
    return Tensor::empty({rows, heads, positions}, DType::i32, device.host(), MemoryTag::workspace);
  };
  const Tensor query_position = integers(time), query_bucket = integers(time);
  const Tensor key_position = integers(carried + time), key_bucket = integers(carried + time);
  dispatch_on_host(query_position.device(), [&] {
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t unseen = carried - std::min(earlier.data<std::int64_t>()[row], carried);
      for (std::int64_t head = row * heads; head < (row + 1) * heads; ++head) {
        for (std::int64_t i = 0; i < carried + time; ++i) {
          const std::int64_t at = head * (carried + time) + i;
          key_position.data<std::int32_t>()[at] = i < unseen ? -1 : static_cast<std::int32_t>(i);
          key_bucket.data<std::int32_t>()[at] =
              i < carried ? 0
                          : static_cast<std::int32_t>(
                                episodes.data<std::int64_t>()[row * time + i - carried]);
        }
        for (std::int64_t i = 0; i < time; ++i) {
          query_position.data<std::int32_t>()[head * time + i] =
              static_cast<std::int32_t>(carried + i);
          query_bucket.data<std::int32_t>()[head * time + i] =
              static_cast<std::int32_t>(episodes.data<std::int64_t>()[row * time + i]);
        }
      }
    }
  });
  return SortedSequence{.query_position = copy_async(query_position, device),
                        .key_position = copy_async(key_position, device),
                        .causal = false,
                        .query_bucket = copy_async(query_bucket, device),
                        .key_bucket = copy_async(key_bucket, device)};
}

}  // namespace longspan
