// A small decoder with intermediate losses and losses of future tokens.
#pragma once

#include "tests/models/model_testing.h"

namespace longspan::testing {

using InnerLosses = AuxiliaryLossOptions::Inner;

inline DecoderOptions deep_options(NormPosition norm = NormPosition::pre) {
  DecoderOptions options;
  options.common = tiny_options(norm);
  options.common.activation = FeedForwardActivation::gelu_tanh;
  options.common.layers = 3;
  options.positions.kind = PositionEmbeddingType::learned;
  options.positions_each_layer = true;
  options.auxiliary = {.inner = InnerLosses::drop, .targets = 2};
  return options;
}

}  // namespace longspan::testing
