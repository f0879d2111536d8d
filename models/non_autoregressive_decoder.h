// Non-autoregressive decoder: its configuration keys and unsupported combinations.
#pragma once

#include <string>

#include "framework/modeling/backbone.h"
#include "models/encoder_decoder.h"

namespace longspan {

void declare_nat(OptionTable& table,
                 EncoderDecoderOptions& options,
                 const PlannedBuildOptions& planned);

// Returns why the options do not support non-autoregressive decoding; empty if they do, and for
// causal decoders.
std::string validate_masked(const EncoderDecoderOptions& options,
                            const ScheduledSampling& sampling);

// Returns the number of pairs whose length is outside the length classes, as "out_of_range_lengths"
// over "rows".
AuxiliaryMetric out_of_range_lengths(const Fields& fields, const NatOptions& options);

}  // namespace longspan
