// What an op keeps of its input for the backward pass: the value, or how to make it again.
// Private to framework/autograd.
#pragma once

#include <functional>
#include <memory>

#include "framework/autograd/variable.h"

namespace longspan {

class SavedTensor {
 public:
  // A value that is made again when the first of its keepers asks for it, and let go by the last.
  class RecomputedTensor;

  SavedTensor() = default;
  explicit SavedTensor(Tensor value) : value_(std::move(value)) {}
  explicit SavedTensor(std::shared_ptr<RecomputedTensor> remade) : remade_(std::move(remade)) {}

  // Once for each `keep`.
  Tensor get() const;

 private:
  Tensor value_;
  std::shared_ptr<RecomputedTensor> remade_;
};

// The value of x as an op keeps it: itself, or `make_again`'s way to it.
SavedTensor save_for_backward(const Variable& x);

// Ops need not keep the value of x, which `make` makes again: the gathered input of a split region
// from this rank's share. x was just recorded; where nothing is recorded this does nothing.
// Collectives in `make` are called at the same point of the backward pass on every rank.
void set_recompute(const Variable& x, std::function<Tensor()> make);

}  // namespace longspan
