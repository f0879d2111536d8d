// The part of a layer that is split over tensor ranks: how activations get in and out of it.
#pragma once

#include "framework/autograd/collectives.h"
#include "framework/nn/time_division.h"

namespace longspan {

// A value. Inside a region each tensor rank holds its part of the features or heads. Outside every
// tensor rank holds the same activations, or, with sequence parallelism, its share of their
// positions; then every gradient outside is this rank's share of a sum over the tensor ranks, and
// Parameters::divided says which weights' gradients are to be summed.
class Region {
 public:
  explicit Region(const Communicator& tensor) : tensor_(tensor) {}

  // True when nothing is divided. Asked of the ranks and not of a part: one rank's part may be all
  // of an axis that is shorter than the ranks are many.
  bool whole() const { return tensor_.size() == 1; }

  // x: [batch, time, width] of the positions that `time` gives this rank; result: of all that the
  // tensor ranks hold. Without sequence parallelism it is x. The gradients of the ranks' parts are
  // summed on the way back.
  Variable enter(const Variable& x, const TimeDivision& time) const {
    return time.divided() ? enter_split_by_time(x, time.rows(), tensor_) : enter_split(x, tensor_);
  }
  // What every tensor rank holds alike: weights that are not split, tables.
  Variable enter_whole(const Variable& x, const TimeDivision& time) const {
    return time.divided() ? x : enter_split(x, tensor_);
  }
  // The sum over the ranks' parts, of the positions that this rank holds outside.
  Variable leave(Variable&& x, const TimeDivision& time) const {
    return time.divided() ? leave_split_by_time(x, time.rows(), tensor_)
                          : leave_split(std::move(x), tensor_);
  }

 private:
  Communicator tensor_;
};

}  // namespace longspan
