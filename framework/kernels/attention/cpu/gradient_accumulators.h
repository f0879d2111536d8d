// Where the gradients of an attention call gather before they are written.
#pragma once

#include <cstdint>

#include "framework/kernels/attention/cpu/relative_tables.h"

namespace longspan::tile_attention {

// Where one head's gradients of the terms gather, not yet scaled.
template <typename T>
struct TermSums {
  T* key = nullptr;           // [distances + 2 margins, dim_padded]
  T* value = nullptr;         // [distances + 2 margins, value_padded]
  T* score = nullptr;         // [distances + 2 margins]: sums of score gradients by distance
  T* content_bias = nullptr;  // [dim_padded]
  T* bias = nullptr;          // [distances of the bias]: sums of score gradients, none to be scaled

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

// What the tiles of a pair of batch row and head add to.
template <typename T>
struct PairSums {
  T* dquery = nullptr;    // [time, dim_padded], not yet scaled
  T* dspan = nullptr;     // [time], with a soft span
  T* drow = nullptr;      // of rows of given scores: those of all batch rows
  T* dfactors = nullptr;  // [time, a + c]: of given factors of scores
  TermSums<T> terms;
};

// Calls f with the elements of a gradient, which has the dtype of the inputs or of the sums.
template <typename In, typename F>
void with_gradient(const Tensor& gradient, const F& f) {
  if (gradient.dtype() == DTypeOf<In>::value)
    f(gradient.data<In>());
  else
    f(gradient.data<Accumulator<In>>());
}

}  // namespace longspan::tile_attention
