// A body with a readout: what is trained.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "framework/modeling/output_head.h"
#include "framework/nn/layers.h"

namespace longspan {

struct Losses {
  std::vector<LossTerm> terms;  // the readout's first
  RecurrentState carried;       // for the next batch
  std::vector<AuxiliaryMetric> watched = {};
};

struct Scores {
  Variable scores;  // as Readout::scores
  RecurrentState carried;
};

struct Predictions {
  std::vector<LossTerm> terms;
  Tensor choices;  // as Readout::choices
  RecurrentState carried = {};
  std::vector<EncoderOutput> encoder_outputs = {};  // as States::sides
};

class Model {
 public:
  // Throws ConfigurationError for what the mesh or the data of the setting cannot have.
  Model(const ModelBuildOptions& setting,
        const BackboneFactory& body,
        const OutputHeadFactory& readout);

  // Collective over the ranks that share the rows' time or the weights.
  Losses losses(const ModelInput& reading, const ForwardContext& pass) const;
  Scores scores(const ModelInput& reading, const ForwardContext& pass) const;
  // Nothing is recorded.
  Predictions predict(const ModelInput& reading, const ForwardContext& pass) const;

  const Backbone& body() const { return *body_; }
  const OutputHead& readout() const { return *readout_; }
  Parameters& parameters() { return *parameters_; }
  const Parameters& parameters() const { return *parameters_; }

 private:
  // The states that the readout reads.
  BackboneOutput read(const ModelInput& reading, const ForwardContext& pass) const;
  // What a reading becomes, with the terms of the readout and of the body.
  Losses losses_of(BackboneOutput&& states,
                   const ModelInput& reading,
                   const ForwardContext& pass) const;
  // Of NatObjective::refined, in training: words are said several times.
  Losses refined_losses(const ModelInput& given, const ForwardContext& pass) const;

  std::unique_ptr<Parameters> parameters_;
  std::unique_ptr<Backbone> body_;
  std::unique_ptr<OutputHead> readout_;
  std::optional<Norm> final_norm_;
  double dropout_ = 0;
  ScheduledSampling sampling_;
  std::optional<NatTargets> masked_;
};

}  // namespace longspan
