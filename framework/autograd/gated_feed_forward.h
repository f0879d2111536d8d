// Gated feed-forward layers (Shazeer 2020).
#pragma once

#include "framework/autograd/ops.h"

namespace longspan {

// linear(dropout(activation(linear(x, in, in_bias)) * linear(x, up, up_bias)), out, out_bias).
// Biases may be undefined. Stores the two factors of the hidden layer. `unread`: as in
// feed_forward.
struct GatedForward {
  Variable in;
  Variable in_bias;
  Variable up;
  Variable up_bias;
  Variable out;
  Variable out_bias;
};
Variable gated_feed_forward(const Variable& x,
                            const GatedForward& weights,
                            const Hidden& hidden,
                            bool unread = false);

// Hidden layer only: activation(before) * factor. Stores both.
Variable gated(Activation activation, const Variable& before, const Variable& factor);

}  // namespace longspan
