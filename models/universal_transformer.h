// The Universal Transformer (Dehghani et al. 2019): a causal language model whose layers run
// several times, a fixed number or as often as each position needs.
#pragma once

#include "framework/model/family.h"
#include "framework/model/model.h"
#include "framework/nn/adaptive_steps.h"
#include "models/step_signals.h"

namespace longspan {

// Whether all positions take as many steps, or each as many as it needs.
enum class StepCount : std::uint8_t { fixed, adaptive };

struct UniversalTransformerOptions {
  ModelOptions common = {.layers = 1, .initial_deviation = {}};  // layers: of the block
  PositionOptions positions = {};
  StepSignalOptions signals = {};
  StepCount count = StepCount::fixed;
  HaltingOptions halting = {};  // its steps are those of a fixed number too
  double ponder_weight = 0.01;

  bool adaptive() const { return count == StepCount::adaptive; }
};

void declare(OptionTable& table,
             UniversalTransformerOptions& options,
             const PlannedSetting& planned);
BodyFactory universal_transformer_body(const UniversalTransformerOptions& options);
// A language model.
std::unique_ptr<Model> make_universal_transformer(const UniversalTransformerOptions& options,
                                                  const ModelSetting& setting);
Family universal_transformer_family();

}  // namespace longspan
