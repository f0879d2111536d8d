// Subset of the positions that a layer must compute because later layers read its output there.
#pragma once

#include <memory>
#include <vector>

#include "framework/autograd/row_subset.h"
#include "framework/nn/sequence_shard.h"

namespace longspan {

struct ActiveRows {
  RowSubset rows;  // of an activation [batch, time, width] of this rank
  // [n] i64: index of each row among the rows [streams, time] of all ranks, for dropout.
  Tensor row_of_position;
};

// Returns the rows i of [batch, time] with takes[i] true, where `division` gives the `time`
// positions of each stream. first_stream: global index of the first stream. The number of rows is
// rounded up to a 64th of all rows, so that products have few shapes. Returns null if the subset
// omits less than a quarter of the rows, since the selected rows are stored in addition to the full
// activation.
std::shared_ptr<const ActiveRows> make_active_rows(const std::vector<bool>& takes,
                                                   std::int64_t time,
                                                   const SequenceShard& division,
                                                   std::int64_t first_stream,
                                                   const Device& device);

}  // namespace longspan
