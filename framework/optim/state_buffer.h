// A number for each element that a rank updates, such as a moment.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>

#include "checkpoints/training_state.h"
#include "framework/nn/parameters.h"

namespace longspan {

// Zeros at first, in the dtype of the masters; they are cut and shared out as these are. The
// parameters outlive it.
class StateBuffer {
 public:
  using Which = std::function<bool(const Parameter&)>;

  // `name`: in checkpoints, "optimizer/NAME/PARAMETER". `which`: the parameters that have one;
  // empty: all.
  StateBuffer(std::string name, const Parameters& parameters, const Which& which = {});

  // [elements that this rank owns]. Of a run only where all parameters have one.
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
