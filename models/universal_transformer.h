// The Universal Transformer (Dehghani et al. 2019): a causal language model with recurrence over
// depth, with a fixed or adaptive number of steps.
#pragma once

#include "framework/modeling/family.h"
#include "framework/modeling/model.h"
#include "models/recurrence.h"

namespace longspan {

struct UniversalTransformerOptions : RecurrenceOptions {
  // `layers` counts those of the block
  ModelOptions common = {.layers = 1, .initial_deviation = {}};
  PositionOptions positions = {};
};

void declare(OptionTable& table,
             UniversalTransformerOptions& options,
             const PlannedBuildOptions& planned);
BackboneFactory universal_transformer_body(const UniversalTransformerOptions& options);
std::unique_ptr<Model> make_universal_transformer(const UniversalTransformerOptions& options,
                                                  const ModelBuildOptions& setting);
Family universal_transformer_family();

}  // namespace longspan
