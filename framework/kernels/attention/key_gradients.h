// Gradients of key and value heads that several query heads share: computed for each query head in
// the accumulator dtype, then summed.
#pragma once

#include "framework/kernels/attention/attention.h"
#include "framework/kernels/rows.h"

namespace longspan::tile_attention {

class GroupedKeyGradients {
 public:
  explicit GroupedKeyGradients(const AttentionGradient& g) : asked_(g), by_head_(g) {
    const Attention& a = g.forward;
    const std::int64_t heads = a.query.shape()[2];
    if (a.key.shape()[2] == heads) return;
    by_head_.dkey = scratch(g.dkey, heads);
    by_head_.dvalue = scratch(g.dvalue, heads);
  }
  // Arguments for the kernels, with one key head for each query head.
  const AttentionGradient& by_head() const { return by_head_; }

  // Sums over the query heads of a key head, after the kernels.
  template <typename Backend>
  void sum(Backend backend) const {
    if (by_head_.dkey.shape() == asked_.dkey.shape() || backend.state->is_meta()) return;
    sum_grouped_heads(backend, by_head_.dkey, asked_.dkey, asked_.add);
    sum_grouped_heads(backend, by_head_.dvalue, asked_.dvalue, asked_.add);
  }

 private:
  static Tensor scratch(const Tensor& gradient, std::int64_t heads) {
    return Tensor::empty(gradient.shape().with(2, heads),
                         accumulator_of(gradient.dtype()),
                         gradient.device(),
                         MemoryTag::workspace);
  }

  const AttentionGradient& asked_;
  AttentionGradient by_head_;
};

}  // namespace longspan::tile_attention
