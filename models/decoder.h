// A causal language model with absolute or relative positions (Vaswani et al. 2017, decoder half;
// GPT-2, Radford et al. 2019).
#pragma once

#include "framework/modeling/family.h"
#include "framework/modeling/model.h"
#include "models/adaptive_spans.h"
#include "models/intermediate_losses.h"
#include "models/positions.h"

namespace longspan {

struct DecoderOptions {
  ModelOptions common = {.activation = FeedForwardActivation::gelu_tanh, .norm = NormPosition::pre};
  PositionOptions positions = {};
  SpanOptions spans = {};             // replaces the positions
  bool positions_each_layer = false;  // learned positions: a table per layer, added to its input
  AuxiliaryLossOptions auxiliary = {};
  bool stateful = false;  // recurrent states continue over the segments of a stream
};

void declare(OptionTable& table, DecoderOptions& options, const PlannedBuildOptions& planned);
BackboneFactory decoder_body(const DecoderOptions& options);
std::unique_ptr<Model> make_decoder(const DecoderOptions& options,
                                    const ModelBuildOptions& setting);
Family decoder_family();

}  // namespace longspan
