#include "framework/model/forgotten_keys.h"

#include <algorithm>

#include "framework/core/queued_copy.h"

namespace longspan {

Tensor forgotten_keys(const Reading& reading, const Device& device) {
  const std::int64_t carried = reading.carried.length();
  const auto field = reading.fields.find("earlier");
  if (carried == 0 || field == reading.fields.end()) return {};
  const Tensor& earlier = field->second;
  const std::int64_t keys = carried + reading.time();
  const Tensor forgotten =
      Tensor::empty({reading.rows(), keys}, DType::u8, device.host(), MemoryTag::workspace);
  on_host(forgotten.device(), [&] {
    for (std::int64_t row = 0; row < reading.rows(); ++row) {
      const std::int64_t seen = std::min(earlier.data<std::int64_t>()[row], carried);
      std::uint8_t* const of_row = forgotten.data<std::uint8_t>() + row * keys;
      std::fill_n(of_row, carried - seen, std::uint8_t{1});
      std::fill(of_row + carried - seen, of_row + keys, std::uint8_t{0});
    }
  });
  return queued_to(forgotten, device);
}

}  // namespace longspan
