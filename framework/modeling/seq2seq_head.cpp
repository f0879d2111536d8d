#include "framework/autograd/losses.h"
#include "framework/autograd/ops.h"
#include "framework/core/async_copy.h"
#include "framework/kernels/elementwise.h"
#include "framework/modeling/argmax.h"
#include "framework/modeling/heads.h"
#include "framework/modeling/lm_head.h"
#include "framework/modeling/non_autoregressive.h"
#include "framework/modeling/pooling.h"
#include "framework/modeling/seq2seq_losses.h"
#include "framework/modeling/sequence_level.h"
#include "framework/modeling/sequence_parallel.h"
#include "framework/nn/layers.h"
#include "framework/nn/sequence_shard.h"

namespace longspan {
namespace {

// Generation probability: sigmoid(w [embedding; hidden] + b), as in fairseq, without the context
// vector of See et al.
struct Gate {
  Linear hidden;
  Linear embedding;

  Gate(const Scope& scope, const OutputHeadSpec& end)
      : hidden(scope.child("hidden"), {.in = end.width, .out = 1, .hidden = false}),
        embedding(scope.child("embedding"),
                  {.in = end.embedding_width, .out = 1, .bias = false, .hidden = false}) {}
};

// Classifies the target length from the mean encoder output.
struct LengthScores {
  Pooler pool;
  Linear scores;

  LengthScores(const Scope& scope, std::int64_t width, const Initializer& initial)
      : pool(scope.child("pooling"), Pooling::mean, width, initial),
        scores(scope, {.in = width, .out = length_classes, .initial = initial, .hidden = false}) {}
};

class PairReadout : public OutputHead {
 public:
  PairReadout(const Scope& scope, const Backbone& body, const ModelBuildOptions& setting)
      : words_(lm_head()(scope, body, setting)),
        options_(body.end().source),
        masked_(body.end().masked),
        device_(setting.device),
        mesh_(setting.mesh),
        sum_(accumulator_of(setting.compute)),
        sequence_level_(setting.sequence_level) {
    throw_if_error(validate_sequence_level(body.end(), setting));
    if (masked_)
      lengths_.emplace(scope.child("length"), masked_->encoder_hidden_size, body.end().initial);
    if (!options_.copies) return;
    if (setting.smoothing.share > 0)
      throw ConfigurationError(
          "model.use_pointer_generator cannot be combined with training.label_smoothing, found {}",
          setting.smoothing.share);
    gate_.emplace(scope.child("copy"), body.end());
  }

  std::vector<LossTerm> losses(const BackboneOutput& states,
                               const ModelInput& reading,
                               const ForwardContext& pass) const override {
    std::vector<LossTerm> terms = words_->losses(states, reading, pass);
    if (options_.copies) terms.front().values = copied(terms.front().values, states, reading);
    if (!pass.training) return terms;
    if (has_candidates(reading))
      return sequence_level_losses(
          terms.front().values, reading, states.time, sequence_level_, mesh_.context);
    if (masked_ && !states.encoder_outputs.empty())
      terms.push_back({.name = "length",
                       .values = length_losses(states, reading),
                       .count = "rows",
                       .weight = masked_->length_weight});
    if (options_.coverage > 0)
      terms.push_back({.name = "coverage",
                       .values = covered(states, reading),
                       .count = "tokens",
                       .weight = options_.coverage});
    if (options_.guide == GuidedAttentionType::none) return terms;
    const bool by_links = options_.guide == GuidedAttentionType::alignments;
    const bool moves_on = options_.guide == GuidedAttentionType::monotonic;
    terms.push_back(
        {.name = "guided_attention",
         .values = moves_on ? moved_on(states, reading) : guided(states, reading, by_links),
         .count = moves_on ? "tokens" : (by_links ? "linked" : "cells"),
         .weight = options_.guide_weight});
    return terms;
  }

  Variable scores(const BackboneOutput& states,
                  const ModelInput& reading,
                  const ForwardContext& pass) const override {
    const Variable logits = words_->scores(states, reading, pass);
    if (!options_.copies) return logits;
    return Variable(
        pointer_generator_logits({.logits = logits.value(),
                                  .gate = gate(states).value(),
                                  .attention = states.cross_attention_weights.attention.value(),
                                  .source = field_of(reading.fields, "source"),
                                  .only_last = reading.only_last},
                                 part(),
                                 mesh_.tensor));
  }

  // Length predictions.
  Tensor predictions(const BackboneOutput& states,
                     const ModelInput& reading,
                     const ForwardContext&) const override {
    const NoGradGuard unrecorded;
    require(lengths_.has_value() && !states.encoder_outputs.empty(),
            "this head does not predict lengths");
    return argmax_classes(length_scores(states, reading).value());
  }

  const ShardRange& part() const override { return words_->part(); }

 private:
  Tensor targets(const BackboneOutput& states, const ModelInput& reading) const {
    return columns_of(reading, "targets", states.time, device_);
  }

  // [rows, positions, 1] for the positions inside split regions. Every tensor rank computes the
  // same gate.
  Variable gate(const BackboneOutput& states) const {
    const Variable outside = cast(add(gate_->hidden(states.hidden),
                                      gate_->embedding(states.cross_attention_weights.embedding)),
                                  sum_);
    if (!states.time.divided()) return outside;
    return shared_gradient(
        gather_from_sequence_parallel_region(outside, states.time.rows(), mesh_.tensor),
        mesh_.tensor.size());
  }

  // words: the vocabulary softmax's losses of the targets.
  Variable copied(const Variable& words,
                  const BackboneOutput& states,
                  const ModelInput& reading) const {
    const Tensor wanted = targets(states, reading);
    const Tensor source = copy_async(field_of(reading.fields, "source"), device_);
    return pointer_generator_losses(
        words,
        gate(states),
        copy_probability(states.cross_attention_weights.attention, source, wanted),
        wanted);
  }

  // [rows, 1, length_classes], on every rank that shares time.
  Variable length_scores(const BackboneOutput& states, const ModelInput& reading) const {
    const EncoderOutput& source = states.encoder_outputs.back();
    const Variable rows = masked_->length_detached ? source.rows.detach() : source.rows;
    return cast(lengths_->scores(
                    lengths_->pool(rows, source.time, field_of(reading.fields, "source_length"))),
                sum_);
  }

  Variable length_losses(const BackboneOutput& states, const ModelInput& reading) const {
    const Tensor& source = field_of(reading.fields, "source_length");
    const Tensor& length = field_of(reading.fields, "length");
    const std::int64_t rows = length.elements();
    const Range own = rows_with_losses(mesh_, rows);
    std::vector<std::int64_t> classes(static_cast<std::size_t>(rows), ignored_target);
    for (std::int64_t row = own.begin; row < own.end && !length.device().state().is_meta(); ++row)
      if (const std::int64_t target_length = length.data<std::int64_t>()[row]; target_length > 0)
        classes[static_cast<std::size_t>(row)] = length_class(
            source.data<std::int64_t>()[row], target_length - 1, masked_->length_offset);
    Variable losses = cross_entropy(length_scores(states, reading),
                                    host_field(classes, {rows}, device_),
                                    {.vocabulary = length_classes},
                                    Communicator());
    return sequence_losses(std::move(losses), mesh_);
  }

  // Coverage needs earlier positions, so each context rank gathers all of time and computes the
  // losses of its own positions.
  Variable covered(const BackboneOutput& states, const ModelInput& reading) const {
    if (mesh_.context.size() == 1)
      return coverage_losses(states.cross_attention_weights.attention, targets(states, reading));
    const Shape& shape = states.cross_attention_weights.attention.shape();
    const Variable all = attention_of_all_time(states);
    const Variable losses =
        coverage_losses(all, copy_async(field_of(reading.fields, "targets"), device_));
    std::vector<std::int64_t> own;
    for (std::int64_t row = 0; row < shape[0]; ++row)
      for (const Range& range : states.time.inside())
        for (std::int64_t i = range.begin; i < range.end; ++i) own.push_back(i);
    return gather_columns(reshape(losses, {shape[0], states.time.total, 1}), own, shape[1]);
  }

  Variable attention_of_all_time(const BackboneOutput& states) const {
    const Variable& own = states.cross_attention_weights.attention;
    if (mesh_.context.size() == 1) return own;
    const SequenceShards shares = cross_attention_shards(mesh_, states.time.total, own.shape()[2]);
    return all_gather_sequence(own, shares.queries, mesh_.context);
  }

  // The monotonic expectation is the target of the attention and has no gradient itself.
  Variable moved_on(const BackboneOutput& states, const ModelInput& reading) const {
    const Tensor all = [&] {
      const NoGradGuard unrecorded;
      return attention_of_all_time(states).value();
    }();
    return guided_by(states, monotonic_guide(reading.fields, states.time.inside(), all));
  }
  static Variable guided_by(const BackboneOutput& states, const Tensor& shares) {
    constexpr double marian = 1e-6;
    return guided_attention_losses(states.cross_attention_weights.attention,
                                   shares,
                                   GuidedAttentionLoss::cross_entropy,
                                   marian);
  }

  Variable guided(const BackboneOutput& states, const ModelInput& reading, bool by_links) const {
    const Ranges positions = states.time.inside();
    const Tensor guide =
        copy_async(by_links ? alignment_guide(reading.fields, positions)
                            : diagonal_guide(reading.fields, positions, options_.guide_width),
                   device_);
    const Tensor rounded = cast(Variable(guide), sum_).value();
    return by_links ? guided_by(states, rounded)
                    : guided_attention_losses(states.cross_attention_weights.attention,
                                              rounded,
                                              GuidedAttentionLoss::product);
  }

  std::unique_ptr<OutputHead> words_;
  CrossAttentionLossOptions options_;
  std::optional<NatTargets> masked_;
  Device device_;
  ProcessMesh mesh_;
  DType sum_;
  SequenceLevelOptions sequence_level_;
  std::optional<Gate> gate_;
  std::optional<LengthScores> lengths_;
};

}  // namespace

OutputHeadFactory seq2seq_head() {
  return [](const Scope& scope, const Backbone& body, const ModelBuildOptions& setting) {
    return std::make_unique<PairReadout>(scope, body, setting);
  };
}

}  // namespace longspan
