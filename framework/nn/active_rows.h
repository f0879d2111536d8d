// Which positions a layer computes where the others' results are not read.
#pragma once

#include <memory>
#include <vector>

#include "framework/autograd/row_subset.h"
#include "framework/nn/sequence_shard.h"

namespace longspan {

struct ActiveRows {
  RowSubset rows;  // of an activation [batch, time, width] of this rank
  // [n] i64, where each of them lies among the rows [streams, time] of all ranks, for dropout.
  Tensor row_of_position;
};

// The rows i of [batch, time] where takes[i] holds, `time` positions a stream as `division` says,
// with first_stream the first stream's global index. Their number is rounded up to a 64th of all,
// so that products have few shapes. Null where that leaves out less than a fourth of them: what
// is taken is kept beside the whole.
std::shared_ptr<const ActiveRows> make_active_rows(const std::vector<bool>& takes,
                                                   std::int64_t time,
                                                   const SequenceShard& division,
                                                   std::int64_t first_stream,
                                                   const Device& device);

}  // namespace longspan
