#include "framework/modeling/all_gather_logits.h"

#include <algorithm>

#include "framework/kernels/element.h"

namespace longspan {

Tensor all_gather_logits(const Tensor& logits, const ShardRange& part, const Communicator& tensor) {
  const Device host = logits.device().host();
  const std::int64_t rows = logits.shape()[0];
  if (tensor.size() == 1 && logits.dtype() == DType::f32)
    return logits.to_host().reshape({rows, part.count});
  const Tensor here = to_host_f64(logits).reshape({rows, part.count});
  if (tensor.size() == 1) return here;
  // Shard sizes differ by at most one column; each rank sends the size of the largest.
  const int ranks = tensor.size();
  const std::int64_t most = (part.total + ranks - 1) / ranks;
  const Tensor mine = Tensor::zeros({rows, most}, DType::f64, host, MemoryTag::workspace);
  const Tensor all = Tensor::empty({ranks, rows, most}, DType::f64, host, MemoryTag::workspace);
  for (std::int64_t row = 0; row < rows; ++row)
    std::ranges::copy(here.slice(row, row + 1).span<double>(),
                      mine.slice(row, row + 1).span<double>().data());
  tensor.all_gather(mine, all);
  const Tensor result = Tensor::empty({rows, part.total}, DType::f64, host, MemoryTag::workspace);
  double* to = result.data<double>();
  for (std::int64_t row = 0; row < rows; ++row)
    for (int rank = 0; rank < ranks; ++rank)
      to = std::copy_n(all.data<double>() + (rank * rows + row) * most,
                       shard_range(part.total, rank, ranks).count,
                       to);
  return result;
}

}  // namespace longspan
