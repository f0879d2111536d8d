#include "framework/modeling/sequence_parallel.h"

#include <unordered_map>

#include "framework/autograd/collectives.h"
#include "framework/autograd/ops.h"
#include "framework/core/async_copy.h"
#include "framework/nn/attention/kv_cache.h"
#include "framework/nn/parameters.h"

namespace longspan {

Range positions_read(const ForwardContext& pass, std::int64_t time) {
  if (!pass.kv_cache || !pass.kv_cache->sequence()) return {0, time};
  return pass.kv_cache->sequence()->chunk(pass.kv_cache->chunk());
}

Range rows_with_losses(const ProcessMesh& mesh, std::int64_t rows) {
  const ShardRange part = shard_range(rows, mesh.time.rank(), mesh.time.size());
  return {part.begin, part.begin + part.count};
}

Variable sequence_losses(Variable&& x, const ProcessMesh& mesh) {
  return mesh.shape.sequence ? reduce_from_tensor_parallel_region(std::move(x), mesh.tensor)
                             : std::move(x);
}

Tensor host_field(const std::vector<std::int64_t>& values,
                  const Shape& shape,
                  const Device& device) {
  return copy_async(Tensor::from<std::int64_t>(values, shape, device.host(), MemoryTag::workspace),
                    device);
}

Variable gather_columns(const Variable& x,
                        const std::vector<std::int64_t>& columns,
                        std::int64_t n) {
  const std::int64_t rows = x.shape()[0], held = x.shape()[1];
  std::vector<std::int64_t> ids(columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i)
    ids[i] = columns[i] < 0 ? -1 : static_cast<std::int64_t>(i) / n * held + columns[i];
  return embedding(reshape(x, {rows * held, x.shape()[2]}),
                   host_field(ids, {rows, n}, x.value().device()),
                   0,
                   1);
}

Variable gather_positions(const Variable& x,
                          const Ranges& held,
                          const std::vector<std::int64_t>& places,
                          std::int64_t n,
                          const Communicator& group) {
  std::unordered_map<std::int64_t, std::int64_t> columns;
  for (const Range& range : held)
    for (std::int64_t place = range.begin; place < range.end; ++place)
      columns.emplace(place, std::ssize(columns));
  std::vector<std::int64_t> own(places.size(), -1);
  for (std::size_t i = 0; i < places.size(); ++i)
    if (const auto found = columns.find(places[i]); found != columns.end()) own[i] = found->second;
  return copy_to_tensor_parallel_region(
      reduce_from_tensor_parallel_region(gather_columns(x, own, n), group), group);
}

}  // namespace longspan
