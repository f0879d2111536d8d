// How far the streams that reversible stacks rebuild are from the true ones.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "framework/core/device.h"
#include "framework/distributed/communicator.h"

namespace longspan {

// Sums over the backward passes of a step, of each sublayer.
class ReconstructionError {
 public:
  // `stack`: its place in the model, the same on all ranks.
  void add(std::uint64_t stack, std::int64_t sublayer, double squared_error, double squared_norm);

  // Of the sublayer where it is largest, the norm of the difference over the norm of the stream,
  // both over what all ranks hold of it: the same however streams and time are divided. Collective.
  double largest(const Communicator& ranks, const Device& device) const;

 private:
  std::map<std::pair<std::uint64_t, std::int64_t>, std::pair<double, double>> sums_;
};

}  // namespace longspan
