// Auxiliary losses (Al-Rfou et al. 2018): of intermediate layers, which end one after another
// during training, and of tokens further ahead.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/modeling/backbone.h"
#include "framework/nn/embedding.h"
#include "framework/nn/residual/residual.h"
#include "models/model_options.h"

namespace longspan {

struct AuxiliaryLossOptions {
  enum class Inner : std::uint8_t {
    none,
    drop,  // an intermediate layer's loss has full weight until it ends
    decay  // the weight decays linearly to 0 at the end
  };
  enum class Total : std::uint8_t { sum, mean };  // over the intermediate layers with a loss

  Inner inner = Inner::none;
  double end = 0.5;  // layer l of n has a loss in the first `end` x l / n of training
  double weight = 1;
  Total total = Total::sum;
  std::int64_t targets = 1;    // number of future tokens that each position predicts
  double target_weight = 0.5;  // of tokens after the next one, in each layer

  bool any() const { return inner != Inner::none || targets > 1; }
};

// Declares the keys model.intermediate_losses.schedule, model.intermediate_losses.end_fraction,
// model.intermediate_losses.weight, model.intermediate_losses.reduction, model.num_future_tokens
// and model.future_token_loss_weight.
void declare(OptionTable& table,
             AuxiliaryLossOptions& options,
             const ModelOptions& common,
             const PlannedBuildOptions& planned);

// Returns why a stack that reads `segment` tokens does not support these losses; empty if it does.
std::string validate_auxiliary(const AuxiliaryLossOptions& options,
                               const ModelOptions& common,
                               std::int64_t segment);

// Returns the first step of `steps` in which intermediate layer `layer` of `layers` has no loss.
// Layers count from 1, steps from 0.
std::int64_t inner_loss_end(const AuxiliaryLossOptions& options,
                            std::int64_t layer,
                            std::int64_t layers,
                            std::int64_t steps);
// Returns the weight of a layer's loss in a step.
double inner_loss_weight(const AuxiliaryLossOptions& options,
                         std::int64_t layer,
                         std::int64_t layers,
                         std::int64_t step,
                         std::int64_t steps);

// A classifier for each layer and token offset, except the last layer's next token, which the
// output head predicts. Parameters "LAYER/AHEAD/weight" [classes, width] and "bias"; with pre-norm
// layers also "LAYER/norm". Layers and offsets count from 1. Parameters of intermediate layers are
// active while their layer has a loss (Parameter::active_steps). Logits are chunked as in the
// output head.
class IntermediateLosses {
 public:
  // For settings with training steps. Throws ConfigurationError with validate_auxiliary.
  IntermediateLosses(const Scope& scope,
                     const AuxiliaryLossOptions& options,
                     const ModelOptions& common,
                     const ModelBuildOptions& setting);

  // Returns a recorder that adds the terms of active intermediate layers to `terms` during the
  // forward pass. It adds none outside training. All arguments must outlive the forward pass of the
  // layers. Term "layer3" predicts the next token, "layer3_ahead2" the one after it. The input's
  // targets are the next tokens. A loss further ahead is a mean over the positions whose target is
  // in the segment.
  LayerRecorder watch(const ModelInput& reading,
                      const ForwardContext& pass,
                      std::vector<LossTerm>& terms) const;
  // Adds the terms of the last layer, "ahead2" and so on. hidden: its output.
  void add_last(const Variable& hidden,
                const ModelInput& reading,
                const ForwardContext& pass,
                std::vector<LossTerm>& terms) const;

 private:
  struct Head {
    std::int64_t ahead = 1;
    LMHead output;
  };
  struct Heads {
    std::optional<Norm> norm;
    std::vector<Head> each;
  };

  Heads heads_of(const Scope& scope, std::int64_t layer) const;
  void add_terms(std::int64_t layer,
                 double weight,
                 const Variable& output,
                 const ModelInput& reading,
                 const ForwardContext& pass,
                 std::vector<LossTerm>& terms) const;

  AuxiliaryLossOptions options_;
  ModelOptions common_;
  ModelBuildOptions setting_;
  std::vector<Heads> layers_;
};

}  // namespace longspan
