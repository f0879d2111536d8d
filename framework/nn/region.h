// Entry to and exit from the part of a layer that is split over tensor ranks.
#pragma once

#include "framework/autograd/collectives.h"
#include "framework/nn/sequence_shard.h"

namespace longspan {

// Value type. Inside a region each tensor rank holds its part of the features or heads. Outside,
// all tensor ranks hold the same activations or, with sequence parallelism, each its share of the
// positions. In the latter case every gradient outside is this rank's summand of a sum over the
// tensor ranks. Parameters::divided returns which weight gradients must be summed.
class TensorParallelRegion {
 public:
  explicit TensorParallelRegion(const Communicator& tensor) : tensor_(tensor) {}

  // Returns true if nothing is split. Depends on the number of ranks, not on the shard: one rank's
  // shard may be a full axis that is shorter than the number of ranks.
  bool whole() const { return tensor_.size() == 1; }

  // x: [batch, time, width] of this rank's positions in `time`. Returns the positions of all tensor
  // ranks, or x without sequence parallelism. The backward pass sums the gradients over the ranks.
  Variable enter(const Variable& x, const SequenceShard& time) const {
    return time.divided() ? gather_from_sequence_parallel_region(x, time.rows(), tensor_)
                          : copy_to_tensor_parallel_region(x, tensor_);
  }
  // For inputs that every tensor rank holds in full: weights that are not split, tables.
  Variable enter_replicated(const Variable& x, const SequenceShard& time) const {
    return time.divided() ? x : copy_to_tensor_parallel_region(x, tensor_);
  }
  // Returns the sum over the ranks, for the positions that this rank holds outside.
  Variable leave(Variable&& x, const SequenceShard& time) const {
    return time.divided() ? reduce_scatter_to_sequence_parallel_region(x, time.rows(), tensor_)
                          : reduce_from_tensor_parallel_region(std::move(x), tensor_);
  }

 private:
  Communicator tensor_;
};

}  // namespace longspan
