// A causal language model with absolute positions (Vaswani et al. 2017, decoder half; GPT-2,
// Radford et al. 2019).
#pragma once

#include "framework/model/family.h"
#include "framework/model/model.h"
#include "models/model_options.h"

namespace longspan {

struct DecoderOptions {
  enum class Positions : std::uint8_t { sinusoidal, learned };

  ModelOptions common = {.activation = Activation::gelu_tanh, .norm = NormPlacement::pre};
  Positions positions = Positions::sinusoidal;
  std::optional<std::int64_t> longest;  // positions of a learned table; none: data.segment
};

void declare(OptionTable& table, DecoderOptions& options, const PlannedSetting& planned);
BodyFactory decoder_body(const DecoderOptions& options);
// A language model.
std::unique_ptr<Model> make_decoder(const DecoderOptions& options, const ModelSetting& setting);
Family decoder_family();

}  // namespace longspan
