// Options of a masked softmax in addition to its scores and mask.
#pragma once

#include "framework/autograd/ops.h"
#include "framework/nn/parameters.h"

namespace longspan {

// Value type.
struct SoftmaxOptions {
  // "sinks" [heads]: a term in the softmax denominator of each head (sinks.h)
  Weight sinks = nullptr;
  double cap = 0;    // soft cap of scores (Attention::cap); 0: none
  double scale = 0;  // of the query-key products; 0: 1 / sqrt(dim)

  bool empty() const { return !sinks && cap == 0 && scale == 0; }
  void add_to(AttentionTerms& terms) const {
    terms.cap = cap;
    terms.scale = scale;
    if (sinks) terms.sinks = sinks->variable;
  }
};

// Creates the options of a layer. `attention`: scope of its attention. Sinks are initialized with
// 0.
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
