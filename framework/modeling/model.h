// A trainable model: a backbone with an output head.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "framework/modeling/output_head.h"
#include "framework/nn/layers.h"

namespace longspan {

struct Losses {
  std::vector<LossTerm> terms;  // the output head's terms come first
  RecurrentState carried;       // for the next batch
  std::vector<AuxiliaryMetric> watched = {};
};

struct Scores {
  Variable scores;  // as OutputHead::scores
  RecurrentState carried;
};

struct Predictions {
  std::vector<LossTerm> terms;
  Tensor choices;  // as OutputHead::predictions
  RecurrentState carried = {};
  std::vector<EncoderOutput> encoder_outputs = {};  // as BackboneOutput::encoder_outputs
};

class Model {
 public:
  // Throws ConfigurationError for settings that the mesh or the data do not support.
  Model(const ModelBuildOptions& setting,
        const BackboneFactory& body,
        const OutputHeadFactory& readout);

  // Collective over the ranks that share the rows' time or the weights.
  Losses losses(const ModelInput& reading, const ForwardContext& pass) const;
  Scores scores(const ModelInput& reading, const ForwardContext& pass) const;
  // Returns the sequences of a batch as training and evaluation read them: in chunks of
  // memory.bptt_chunk_length.
  ChunkedSequence chunked(const ModelInput& reading) const;
  // Returns the KV cache for a pass over these sequences in chunks, with the states before them.
  // Null if whole sequences are read without one.
  std::shared_ptr<KVCache> sequence_cache(const ModelInput& reading, bool trains) const;
  // Returns the tensors of ModelInput::carried of a stateful model; empty for others.
  std::vector<RecurrentStateSpec> recurrent_states() const {
    return body_->is_stateful() ? parameters_->recurrent_states()
                                : std::vector<RecurrentStateSpec>();
  }
  // Returns memory.bptt_chunk_length.
  const std::optional<std::int64_t>& bptt_chunk_length() const { return bptt_chunk_length_; }
  // Returns the encoder outputs that all chunks of a batch attend to; empty without an encoder.
  std::vector<EncoderOutput> encode(const ModelInput& reading, const ForwardContext& pass) const {
    return body_->encode(reading, pass);
  }
  // Computes the states after the current chunk of pass.kv_cache. Collective; records no gradient.
  void compute_states(const ModelInput& reading, const ForwardContext& pass) const;
  // Records no gradient.
  Predictions predict(const ModelInput& reading, const ForwardContext& pass) const;

  const Backbone& body() const { return *body_; }
  const OutputHead& readout() const { return *readout_; }
  Parameters& parameters() { return *parameters_; }
  const Parameters& parameters() const { return *parameters_; }

 private:
  // Returns the hidden states that the output head reads.
  BackboneOutput read(const ModelInput& reading, const ForwardContext& pass) const;
  // Returns the losses of the output head and of the backbone.
  Losses losses_of(BackboneOutput&& states,
                   const ModelInput& reading,
                   const ForwardContext& pass) const;
  // For NatObjective::refined in training: runs several refinement passes.
  Losses refined_losses(const ModelInput& given, const ForwardContext& pass) const;

  std::unique_ptr<Parameters> parameters_;
  std::unique_ptr<Backbone> body_;
  std::unique_ptr<OutputHead> readout_;
  std::optional<Norm> final_norm_;
  double dropout_ = 0;
  ScheduledSampling sampling_;
  std::optional<std::int64_t> bptt_chunk_length_;
  std::optional<NatTargets> masked_;
};

}  // namespace longspan
