#include "framework/nn/all_gather_sequence.h"

#include "framework/autograd/ops.h"
#include "framework/core/async_copy.h"

namespace longspan {

Variable all_gather_sequence(const Variable& x,
                             const std::vector<Ranges>& positions,
                             const Communicator& ranks) {
  if (ranks.size() == 1) return x;
  std::vector<std::int64_t> rows;
  std::int64_t total = 0;
  for (const Ranges& ranges : positions) total += rows.emplace_back(pluralize(ranges));
  const Variable all = gather_from_sequence_parallel_region(x, rows, ranks);
  // Index of each position's row after the gather.
  std::vector<std::int64_t> place(static_cast<std::size_t>(total));
  for (std::int64_t row = 0; const Ranges& ranges : positions)
    for (const Range& range : ranges)
      for (std::int64_t i = range.begin; i < range.end; ++i)
        place[static_cast<std::size_t>(i)] = row++;
  const std::int64_t batch = x.shape()[0];
  std::vector<std::int64_t> ids;
  for (std::int64_t b = 0; b < batch; ++b)
    for (const std::int64_t row : place) ids.push_back(b * total + row);
  const Device& device = x.value().device();
  const Tensor order = copy_async(
      Tensor::from<std::int64_t>(ids, {batch, total}, device.host(), MemoryTag::workspace), device);
  return embedding(reshape(all, {batch * total, x.shape()[2]}), order, 0, 1);
}

}  // namespace longspan
