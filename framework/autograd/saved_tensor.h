// Input that an op saves for the backward pass: the value, or a function that recomputes it.
// Private to framework/autograd.
#pragma once

#include <functional>
#include <memory>

#include "framework/autograd/variable.h"

namespace longspan {

class SavedTensor {
 public:
  // A value that is recomputed at the first use and released after the last.
  class RecomputedTensor;

  SavedTensor() = default;
  explicit SavedTensor(Tensor value) : value_(std::move(value)) {}
  explicit SavedTensor(std::shared_ptr<RecomputedTensor> remade) : remade_(std::move(remade)) {}

  // Requires one call per save_for_backward.
  Tensor get() const;

 private:
  Tensor value_;
  std::shared_ptr<RecomputedTensor> remade_;
};

// Returns the value of x to save: itself, or a function from `set_recompute`.
SavedTensor save_for_backward(const Variable& x);

// Makes ops save `make`, which recomputes the value of x, instead of the value: the gathered input
// of a split region from this rank's shard. Requires that x was just recorded. No effect without
// recording. Collectives in `make` are called at the same point of the backward pass on every rank.
void set_recompute(const Variable& x, std::function<Tensor()> make);

}  // namespace longspan
