// What an op keeps of its input for the backward pass: the value, or how to make it again.
// Private to framework/autograd.
#pragma once

#include <functional>
#include <memory>

#include "framework/autograd/variable.h"

namespace longspan {

class Kept {
 public:
  // A value that is made again when the first of its keepers asks for it, and let go by the last.
  class Remade;

  Kept() = default;
  explicit Kept(Tensor value) : value_(std::move(value)) {}
  explicit Kept(std::shared_ptr<Remade> remade) : remade_(std::move(remade)) {}

  // Once for each `keep`.
  Tensor get() const;

 private:
  Tensor value_;
  std::shared_ptr<Remade> remade_;
};

// The value of x as an op keeps it: itself, or `make_again`'s way to it.
Kept keep(const Variable& x);

// Ops need not keep the value of x, which `make` makes again: the gathered input of a split region
// from this rank's share. x was just recorded; where nothing is recorded this does nothing.
// Collectives in `make` are called at the same point of the backward pass on every rank.
void make_again(const Variable& x, std::function<Tensor()> make);

}  // namespace longspan
