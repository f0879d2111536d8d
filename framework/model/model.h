// A body with a readout: what is trained.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "framework/model/readout.h"
#include "framework/nn/layers.h"

namespace longspan {

struct Losses {
  std::vector<Term> terms;  // the readout's first
  Carried carried;          // for the next batch
  std::vector<Watched> watched = {};
};

struct Scores {
  Variable scores;  // as Readout::scores
  Carried carried;
};

struct Answers {
  std::vector<Term> terms;
  Tensor choices;  // as Readout::choices
  Carried carried = {};
  std::vector<Side> sides = {};  // as States::sides
};

class Model {
 public:
  // Throws ConfigurationError for what the mesh or the data of the setting cannot have.
  Model(const ModelSetting& setting, const BodyFactory& body, const ReadoutFactory& readout);

  // Collective over the ranks that share the rows' time or the weights.
  Losses losses(const Reading& reading, const Pass& pass) const;
  Scores scores(const Reading& reading, const Pass& pass) const;
  // Nothing is recorded.
  Answers answers(const Reading& reading, const Pass& pass) const;

  const Body& body() const { return *body_; }
  const Readout& readout() const { return *readout_; }
  Parameters& parameters() { return *parameters_; }
  const Parameters& parameters() const { return *parameters_; }

 private:
  // The states that the readout reads.
  States read(const Reading& reading, const Pass& pass) const;
  // What a reading becomes, with the terms of the readout and of the body.
  Losses losses_of(States&& states, const Reading& reading, const Pass& pass) const;
  // Of WordMasking::refined, in training: words are said several times.
  Losses refined_losses(const Reading& given, const Pass& pass) const;

  std::unique_ptr<Parameters> parameters_;
  std::unique_ptr<Body> body_;
  std::unique_ptr<Readout> readout_;
  std::optional<Norm> final_norm_;
  double dropout_ = 0;
  ScheduledSampling sampling_;
  std::optional<MaskedTargets> masked_;
};

}  // namespace longspan
