// The part of a layer that is split over tensor ranks: how activations get in and out of it.
#pragma once

#include "framework/autograd/collectives.h"

namespace longspan {

// A value. Outside a region every tensor rank holds the same activations; inside each holds its
// part.
class Region {
 public:
  explicit Region(const Communicator& tensor) : tensor_(tensor) {}

  // Identity; the gradients of the ranks' parts are summed on the way back.
  Variable enter(const Variable& x) const { return enter_split(x, tensor_); }
  // The sum over the ranks' parts.
  Variable leave(Variable&& x) const { return leave_split(std::move(x), tensor_); }

 private:
  Communicator tensor_;
};

}  // namespace longspan
