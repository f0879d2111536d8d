// Low-rank adapters (Hu et al. 2021; fine_tuning.h).
#pragma once

#include "framework/nn/parameters.h"

namespace longspan {

struct ForwardContext;  // pass.h

// What is added to the product of a linear layer: factor up (down x). Parameters "adapter/down"
// [rank, in] and "adapter/up" [out, rank] in the layer's scope. Of a layer that is divided over
// tensor ranks the one that meets the divided axis is divided as it is, and the sums that the layer
// makes over the ranks, of its output or of its input's gradient, are the adapter's too.
class LoraAdapter {
 public:
  // `split_axis`: of the layer's weight [out, in]. Throws ConfigurationError where the rank is
  // above either.
  LoraAdapter(const Scope& scope, std::int64_t out, std::int64_t in, int split_axis);

  // factor (down x), [..., rank]: this rank's share of it where `in` is divided. With a pass of
  // training what is read is dropped: x is [batch, time, in] of the positions of pass.time, or of
  // the rows that pass.taken took.
  Variable narrow(const Variable& x, const ForwardContext* pass) const;
  const Variable& up() const { return up_->variable; }

 private:
  Variable dropped(const Variable& x, const ForwardContext& pass) const;

  double factor_;
  double dropout_;
  bool inside_;  // x is within a split region
  Weight down_;
  Weight up_;
};

}  // namespace longspan
