// Low-rank adapters (Hu et al. 2021; fine_tuning.h).
#pragma once

#include "framework/nn/parameters.h"

namespace longspan {

struct ForwardContext;  // forward_context.h

// Adds factor * up(down(x)) to the output of a linear layer. Parameters in the scope of the layer:
// "adapter/down" [rank, in] and "adapter/up" [out, rank]. If the layer is split over tensor ranks,
// the matrix with the split axis is split the same way. The layer's sums over the ranks, of its
// output or of its input gradient, include the adapter.
class LoraAdapter {
 public:
  // `split_axis`: axis of the layer's weight [out, in]. Throws ConfigurationError if the rank
  // exceeds `in` or `out`.
  LoraAdapter(const Scope& scope, std::int64_t out, std::int64_t in, int split_axis);

  // Returns factor * down(x), [..., rank], as this rank's partial sum if `in` is split. With a
  // training pass it applies dropout to x, [batch, time, in] of the positions in pass.time, or the
  // rows in pass.active_rows.
  Variable narrow(const Variable& x, const ForwardContext* pass) const;
  const Variable& up() const { return up_->variable; }

 private:
  Variable dropped(const Variable& x, const ForwardContext& pass) const;

  double factor_;
  double dropout_;
  bool inside_;  // x is inside a split region
  Weight down_;
  Weight up_;
};

}  // namespace longspan
