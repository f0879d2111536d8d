// Optimizer state with one value per element, such as a moment.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>

#include "checkpoints/training_state.h"
#include "framework/nn/parameters.h"

namespace longspan {

// Initially zero, with the dtype and the sharding of the masters. The parameters must outlive it.
class StateBuffer {
 public:
  using Which = std::function<bool(const Parameter&)>;

  // `name`: in checkpoints, "optimizer/NAME/PARAMETER". `which`: the parameters with this state;
  // empty: all.
  StateBuffer(std::string name, const Parameters& parameters, const Which& which = {});

  // Returns [elements that this rank owns]. Runs require state for all parameters.
  Tensor of(const Parameter& parameter) const;
  Tensor of(const FlatParameterRun& run) const;

  void add_to(TrainingState& state) const;

 private:
  std::string name_;
  const Parameters& parameters_;
  std::unordered_map<const Parameter*, std::int64_t> places_;
  Tensor values_;
};

}  // namespace longspan
