// Pixel output head: distributions over the 256 values of each channel.
#pragma once

#include "framework/modeling/output_head.h"

namespace longspan {

// In the scope "output", for a backbone with OutputHeadSpec::pixels, which gives the order of the
// values. Loss term "loss", over "tokens" (channel values): the negative log-likelihood of `pixels`
// [rows, columns] in nats. It is 0 for padding and for rows of `length` 0. With
// OutputHeadSpec::mixtures 0 each position predicts one of 256 values. Otherwise a position
// predicts a whole pixel with a mixture of logistics (kernels/logistic_mixture.h), whose parameters
// are replicated on every tensor rank. Throws ConfigurationError for a backbone without pixels.
OutputHeadFactory pixel_head();

}  // namespace longspan
