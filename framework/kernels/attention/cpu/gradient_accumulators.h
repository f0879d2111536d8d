// Accumulators of the gradients of an attention call.
#pragma once

#include <cstdint>

#include "framework/kernels/attention/cpu/relative_tables.h"

namespace longspan::tile_attention {

// Accumulators of one head's term gradients, before scaling.
template <typename T>
struct TermSums {
  T* key = nullptr;    // [distances + 2 margins, dim_padded]
  T* value = nullptr;  // [distances + 2 margins, value_padded]
  // [distances + 2 margins]: sums of score gradients by relative position
  T* score = nullptr;
  T* content_bias = nullptr;  // [dim_padded]
  T* bias = nullptr;          // [distances of the bias]: sums of score gradients, never scaled

  TermSums() = default;
  template <typename In>
  TermSums(const Problem<In>& p, ScratchArena& carver) {
    const auto rows = [](const auto& table) { return table.count() + 2 * distance_margin; };
    if (p.key_table) key = carver.take<T>(rows(p.key_table) * p.dim_padded);
    if (p.value_table) value = carver.take<T>(rows(p.value_table) * p.value_padded);
    if (p.call.distance_bias.defined()) bias = carver.take<T>(p.call.distance_bias.shape()[1]);
    if (!p.call.relative) return;
    score = carver.take<T>(rows(p.key_table));
    content_bias = carver.take<T>(p.dim_padded);
  }
};

// Accumulators of the tiles of one batch row and head.
template <typename T>
struct PairSums {
  T* dquery = nullptr;    // [time, dim_padded], before scaling
  T* dspan = nullptr;     // [time], with a soft span
  T* drow = nullptr;      // gradient of the rows of given scores, over all batch rows
  T* dfactors = nullptr;  // [time, a + c]: gradients of low and high
  TermSums<T> terms;
};

// Calls f with the elements of a gradient, in the input dtype or the accumulator dtype.
template <typename In, typename F>
void with_gradient(const Tensor& gradient, const F& f) {
  if (gradient.dtype() == DTypeOf<In>::value)
    f(gradient.data<In>());
  else
    f(gradient.data<Accumulator<In>>());
}

}  // namespace longspan::tile_attention
