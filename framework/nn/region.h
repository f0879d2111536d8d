// The part of a layer that is split over tensor ranks: how activations get in and out of it.
#pragma once

#include "framework/autograd/collectives.h"
#include "framework/nn/sequence_shard.h"

namespace longspan {

// A value. Inside a region each tensor rank holds its part of the features or heads. Outside every
// tensor rank holds the same activations, or, with sequence parallelism, its share of their
// positions; then every gradient outside is this rank's share of a sum over the tensor ranks, and
// Parameters::divided says which weights' gradients are to be summed.
class TensorParallelRegion {
 public:
  explicit TensorParallelRegion(const Communicator& tensor) : tensor_(tensor) {}

  // True when nothing is divided. Asked of the ranks and not of a part: one rank's part may be all
  // of an axis that is shorter than the ranks are many.
  bool whole() const { return tensor_.size() == 1; }

  // x: [batch, time, width] of the positions that `time` gives this rank; result: of all that the
  // tensor ranks hold. Without sequence parallelism it is x. The gradients of the ranks' parts are
  // summed on the way back.
  Variable enter(const Variable& x, const SequenceShard& time) const {
    return time.divided() ? gather_from_sequence_parallel_region(x, time.rows(), tensor_)
                          : copy_to_tensor_parallel_region(x, tensor_);
  }
  // What every tensor rank holds alike: weights that are not split, tables.
  Variable enter_whole(const Variable& x, const SequenceShard& time) const {
    return time.divided() ? x : copy_to_tensor_parallel_region(x, tensor_);
  }
  // The sum over the ranks' parts, of the positions that this rank holds outside.
  Variable leave(Variable&& x, const SequenceShard& time) const {
    return time.divided() ? reduce_scatter_to_sequence_parallel_region(x, time.rows(), tensor_)
                          : reduce_from_tensor_parallel_region(std::move(x), tensor_);
  }

 private:
  Communicator tensor_;
};

}  // namespace longspan
