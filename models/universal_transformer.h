// The Universal Transformer (Dehghani et al. 2019): a causal language model whose layers run
// several times, a fixed number or as often as each position needs.
#pragma once

#include "framework/modeling/family.h"
#include "framework/modeling/model.h"
#include "models/recurrence.h"

namespace longspan {

struct UniversalTransformerOptions : RecurrenceOptions {
  ModelOptions common = {.layers = 1, .initial_deviation = {}};  // layers: of the block
  PositionOptions positions = {};
};

void declare(OptionTable& table,
             UniversalTransformerOptions& options,
             const PlannedBuildOptions& planned);
BackboneFactory universal_transformer_body(const UniversalTransformerOptions& options);
// A language model.
std::unique_ptr<Model> make_universal_transformer(const UniversalTransformerOptions& options,
                                                  const ModelBuildOptions& setting);
Family universal_transformer_family();

}  // namespace longspan
