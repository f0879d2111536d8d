// A decoder that says all words of a target at once: its keys, and what it cannot be with.
#pragma once

#include <string>

#include "framework/modeling/backbone.h"
#include "models/encoder_decoder.h"

namespace longspan {

void declare_nat(OptionTable& table,
                 EncoderDecoderOptions& options,
                 const PlannedBuildOptions& planned);

// What keeps such a decoder from being there, as a sentence; empty where nothing does, and of
// another decoder.
std::string masked_problem(const EncoderDecoderOptions& options, const ScheduledSampling& sampling);

// How many rows of the pairs have a length that is no class of its own, by the name
// "out_of_range_lengths" over "rows".
AuxiliaryMetric out_of_range_lengths(const Fields& fields, const NatOptions& options);

}  // namespace longspan
