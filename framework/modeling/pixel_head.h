// The readout of pixels: distributions over the 256 values of channels.
#pragma once

#include "framework/modeling/output_head.h"

namespace longspan {

// In the scope "output", of a body whose OutputHeadSpec::pixels says the order of the values. One
// term, "loss": minus the log-probability of the values of `pixels` [rows, columns] in nats, over
// "tokens", which are values; 0 for padding and for rows of `length` 0. With
// OutputHeadSpec::mixtures 0 each position has one of 256 values; otherwise a pixel with all of its
// channels, under mixtures of logistics, whose numbers (kernels/logistic_mixture.h) every tensor
// rank has. Throws ConfigurationError for another body.
OutputHeadFactory pixel_head();

}  // namespace longspan
