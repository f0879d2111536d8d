// Losses beside that of the last layer's next token: of inner layers, which end one after another
// while training goes on, and of tokens further ahead (Al-Rfou et al. 2018).
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
    drop,  // an inner layer's loss counts whole until it ends
    decay  // less and less, until nothing is left of it where it ends
  };
  enum class Total : std::uint8_t { sum, mean };  // of the inner layers that have a loss

  Inner inner = Inner::none;
  double end = 0.5;  // layer l of n has a loss in the first `end` x l / n of training
  double weight = 1;
  Total total = Total::sum;
  std::int64_t targets = 1;    // tokens ahead that each position predicts
  double target_weight = 0.5;  // of those behind the next one, in each layer

  bool any() const { return inner != Inner::none || targets > 1; }
};

// The keys model.intermediate_losses.schedule, model.intermediate_losses.end_fraction,
// model.intermediate_losses.weight, model.intermediate_losses.reduction, model.num_future_tokens
// and model.future_token_loss_weight.
void declare(OptionTable& table,
             AuxiliaryLossOptions& options,
             const ModelOptions& common,
             const PlannedBuildOptions& planned);

// What keeps a stack that reads `segment` tokens from having such losses, as a sentence; empty
// where nothing does.
std::string auxiliary_problem(const AuxiliaryLossOptions& options,
                              const ModelOptions& common,
                              std::int64_t segment);

// Layers count from 1, steps from 0. The first step of so many in which layer `layer` of `layers`,
// not the last, has no loss.
std::int64_t inner_loss_end(const AuxiliaryLossOptions& options,
                            std::int64_t layer,
                            std::int64_t layers,
                            std::int64_t steps);
// What its loss weighs in a step of so many.
double inner_loss_weight(const AuxiliaryLossOptions& options,
                         std::int64_t layer,
                         std::int64_t layers,
                         std::int64_t step,
                         std::int64_t steps);

// A classifier for each layer and token ahead, but for the last layer's next one, which the readout
// is: parameters "LAYER/AHEAD/weight" [classes, width] and "bias"; where the model has norms before
// its sublayers also "LAYER/norm". Layers and tokens count from 1. Those of inner layers are read
// as long as their layer has a loss (Parameter::active_steps). Logits are chunked as the readout's.
class IntermediateLosses {
 public:
  // For a setting with steps of training. Throws ConfigurationError with auxiliary_problem.
  IntermediateLosses(const Scope& scope,
                     const AuxiliaryLossOptions& options,
                     const ModelOptions& common,
                     const ModelBuildOptions& setting);

  // Adds to `terms` those of the inner layers that have a loss in the pass, as their outputs are
  // shown; nothing outside of training. All must outlive the run of the layers. A term "layer3" is
  // of the next token, "layer3_ahead2" of the one behind it. The reading's targets are those of
  // next tokens: a loss further ahead is a mean over the positions whose token is in the segment.
  LayerRecorder watch(const ModelInput& reading,
                      const ForwardContext& pass,
                      std::vector<LossTerm>& terms) const;
  // And those of the last layer, "ahead2" and so on. hidden: its output.
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
