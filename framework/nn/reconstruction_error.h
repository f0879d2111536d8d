// Error of the streams that reversible stacks reconstruct.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "framework/core/device.h"
#include "framework/distributed/communicator.h"

namespace longspan {

// Sums over the backward passes of a step, for each sublayer.
class ReconstructionError {
 public:
  // `stack`: path of the stack in the model, equal on all ranks.
  void add(std::uint64_t stack, std::int64_t sublayer, double squared_error, double squared_norm);

  // Returns the largest relative error of a sublayer: norm of the difference over norm of the
  // stream. Both norms are over all ranks, so the result does not depend on the sharding of streams
  // and time. Collective.
  double largest(const Communicator& ranks, const Device& device) const;

 private:
  std::map<std::pair<std::uint64_t, std::int64_t>, std::pair<double, double>> sums_;
};

}  // namespace longspan
