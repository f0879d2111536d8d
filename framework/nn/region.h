// The part of a layer that is split over tensor ranks: how activations get in and out of it.
#pragma once

#include "framework/autograd/collectives.h"

namespace longspan {

// A value. Outside a region every tensor rank holds the same activations; inside each holds its
// part.
class Region {
 public:
  explicit Region(const Communicator& tensor) : tensor_(tensor) {}

  // True when nothing is divided. Asked of the ranks and not of a part: one rank's part may be all
  // of an axis that is shorter than the ranks are many.
  bool whole() const { return tensor_.size() == 1; }
  // Identity; the gradients of the ranks' parts are summed on the way back.
  Variable enter(const Variable& x) const { return enter_split(x, tensor_); }
  // The sum over the ranks' parts.
  Variable leave(Variable&& x) const { return leave_split(std::move(x), tensor_); }

 private:
  Communicator tensor_;
};

}  // namespace longspan
