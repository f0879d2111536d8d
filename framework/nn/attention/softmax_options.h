// What a masked softmax has besides its scores and its mask.
#pragma once

#include "framework/autograd/ops.h"
#include "framework/nn/parameters.h"

namespace longspan {

// A value.
struct SoftmaxOptions {
  Weight sinks = nullptr;  // "sinks" [heads]: each has a part of its head's softmax (sinks.h)
  double cap = 0;          // of scores (Attention::cap); 0: none
  double scale = 0;        // of the products of queries and keys; 0: 1 / sqrt(dim)

  bool empty() const { return !sinks && cap == 0 && scale == 0; }
  void add_to(AttentionTerms& terms) const {
    terms.cap = cap;
    terms.scale = scale;
    if (sinks) terms.sinks = sinks->variable;
  }
};

// Of a layer: `attention` is the scope of its attention. Sinks start at 0.
inline SoftmaxOptions softmax_form(const Scope& attention,
                                   std::int64_t heads,
                                   bool has_sinks,
                                   const std::optional<double>& cap) {
  SoftmaxOptions form = {.cap = cap.value_or(0)};
  if (has_sinks)
    form.sinks = attention.no_decay_weight("sinks", {heads}, Initializer::constant(0), 0);
  return form;
}

}  // namespace longspan
