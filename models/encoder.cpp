#include "models/encoder.h"

#include "framework/core/async_copy.h"
#include "framework/nn/embedding.h"
#include "models/attention_ops.h"
#include "models/declare_family.h"
#include "models/patch_encoder.h"
#include "models/stack.h"

namespace longspan {
namespace {

constexpr FamilyTraits encoder_traits = {.causal = false, .sequences = Sequences::examples};

class Encoder : public Backbone {
 public:
  Encoder(const Scope& scope, const EncoderOptions& options, const ModelBuildOptions& setting)
      : options_(options),
        setting_(setting),
        vocabulary_size_(vocabulary_of(options.common, setting.vocabulary)),
        embedding_(scope.child("embedding"),
                   vocabulary_size_,
                   options.common.width,
                   options.common.table_initial()),
        stack_(scope,
               {.common = options.common,
                .memory = setting.memory,
                .recurrence = options.recurrence,
                .positions = options.positions,
                .rotary = rotary_of(options.positions, options.common, setting)},
               attention_ops(
                   scope, options.common, options.positions, encoder_traits, setting.segment),
               setting),
        input_(scope,
               options.input,
               positions_of_embedding(options.positions, options.recurrence),
               options.common,
               setting) {}

  BackboneOutput run(const ModelInput& reading, const ForwardContext& pass) const override {
    const EncoderOutput text = {
        .time = pass.time,
        .length = copy_async(field_of(reading.fields, "length"), setting_.device)};
    BackboneOutput states;
    states.time = pass.time;
    const auto give = [&](const ActResult& pondered) {
      add_ponder_loss(pondered,
                      options_.recurrence.ponder_weight,
                      {.count = "positions"},
                      setting_.mesh,
                      states);
    };
    const Tensor tokens = columns_of(reading, reading.ids(), pass.time, setting_.device);
    states.hidden = stack_(input_(embedding_, tokens, pass, text.length),
                           {.context = text.key_context()},
                           pass,
                           {},
                           give);
    return states;
  }
  Batch prepared(const Batch& batch, const std::optional<Random>& /*random*/) const override {
    return options_.recurrence.adaptive() ? counted(batch, "length", "positions") : batch;
  }

  OutputHeadSpec end() const override {
    // The stack includes the final norm.
    return {.width = options_.common.output_width(),
            .dropout = options_.common.dropout,
            .initial = options_.common.table_initial(),
            .tags = options_.tags,
            .pooling = options_.pooling,
            .class_layer = options_.class_layer};
  }
  std::int64_t vocabulary() const override { return vocabulary_size_; }
  std::int64_t max_segment_length() const override {
    return shorter_of(shorter_of(input_.longest(), stack_.longest()),
                      max_sequence_length_of(options_.common.attention, setting_.segment));
  }

 private:
  EncoderOptions options_;
  ModelBuildOptions setting_;
  std::int64_t vocabulary_size_;
  TokenEmbedding embedding_;
  Stack stack_;
  TokenInput input_;
};

}  // namespace

void declare(OptionTable& table, EncoderOptions& options, const PlannedBuildOptions& given) {
  PlannedBuildOptions planned;
  // There are fewer patches than values. Their number is known only with the images.
  if (given)
    planned = [&options, given] {
      ModelBuildOptions setting = given();
      if (options.patches.side) setting.segment = 1;
      return setting;
    };
  declare(table, options.common, planned, encoder_traits);
  declare(table, options.input);
  declare_token_types(table, options.input);
  declare(table, options.patches);
  declare(table, options.positions, options.common, encoder_traits.sequences, planned);
  declare_recurrence(table, options.recurrence, options.positions);
  table.check(recurrence_keys(),
              [&options] { return validate_recurrence(options.recurrence, options.common); });
  table.add("model.use_crf",
            options.tags,
            "linear-chain CRF over the tags (Lafferty et al. 2001); false: independent tags",
            {{"false", TaggingHeadType::softmax}, {"true", TaggingHeadType::crf}},
            affects_weights(),
            only_with(is("run.task", {"tagging"})));
  table.add("model.pooling",
            options.pooling,
            "pooling of a sequence: first (its first position), mean, max or attention (by a "
            "learned query)",
            {{"first", Pooling::first},
             {"mean", Pooling::mean},
             {"max", Pooling::maximum},
             {"attention", Pooling::attention}},
            affects_weights(),
            only_with(is("run.task", {"classification"})));
  table.add("model.add_pooling_layer",
            options.class_layer,
            "tanh(W x + b) with model.dropout between the pooling and the classifier (Devlin et "
            "al. 2019)",
            affects_weights(),
            only_with(is("run.task", {"classification"})));
  std::vector<std::string> keys = {"model.patch_size",
                                   "model.position_embedding_type",
                                   "model.position_embedding_offset",
                                   "model.pooling",
                                   "model.recurrence.type",
                                   "model.layernorm_embedding",
                                   "model.type_vocab_size"};
  table.check(std::move(keys), [&options] { return validate_patch_encoder(options); });
}

BackboneFactory encoder_body(const EncoderOptions& options) {
  return
      [options](const Scope& scope, const ModelBuildOptions& setting) -> std::unique_ptr<Backbone> {
        if (options.patches.side) return patch_encoder(scope, options, setting);
        throw_if_error(validate_positions(
            options.positions, options.common, encoder_traits.sequences, setting.segment));
        throw_if_error(validate_recurrence(options.recurrence, options.common));
        return std::make_unique<Encoder>(scope, options, setting);
      };
}

Family encoder_family() {
  return {"encoder",
          "bidirectional encoder (Devlin et al. 2019), for run.task: tagging and classification",
          {"tagging", "classification"},
          declared(encoder_body)};
}

}  // namespace longspan
