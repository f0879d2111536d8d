#include "models/decoder.h"

#include <cmath>

#include "framework/modeling/documents.h"
#include "framework/modeling/lm_head.h"
#include "framework/nn/embedding.h"
#include "models/attention_ops.h"
#include "models/declare_family.h"
#include "models/stack.h"

namespace longspan {
namespace {

class Decoder : public Backbone {
 public:
  Decoder(const Scope& scope, const DecoderOptions& options, const ModelBuildOptions& setting)
      : options_(options),
        setting_(setting),
        vocabulary_size_(vocabulary_of(options.common, setting.vocabulary)),
        embedding_(scope.child("embedding"),
                   vocabulary_size_,
                   options.common.width,
                   options.common.table_initial()),
        positions_(positions(scope)),
        spans_(options.spans.any() ? std::optional<AdaptiveSpanStack>(
                                         std::in_place, scope, options.spans, options.common)
                                   : std::nullopt),
        layers_(layers(scope)),
        residual_(make_residual(options.common, setting.memory)) {
    if (options.positions_each_layer) add_positions(scope);
    if (options.auxiliary.any() && setting.steps > 0)
      auxiliary_.emplace(scope.child("inner"), options.auxiliary, options.common, setting);
  }

  BackboneOutput run(const ModelInput& reading, const ForwardContext& pass) const override {
    const Tensor tokens = columns_of(reading, "tokens", pass.time, setting_.device);
    // Learned positions in GPT-2 have the scale of the embeddings; Llama and T5 add no positions.
    const PositionOptions& kind = options_.positions;
    const bool unscaled = kind.learned() || kind.rotary() || kind.biased();
    const double scale =
        unscaled && !spans_ ? 1 : std::sqrt(static_cast<double>(options_.common.width));
    const Tensor places = document_positions(reading, pass.time.outside(), setting_.device);
    const Variable x = drop(positions_ ? positions_->embed(embedding_, tokens, scale, pass, places)
                                       : embedding_(tokens, scale, pass.time),
                            options_.common.dropout,
                            pass.child("embedding"));
    BackboneOutput states = {.hidden = {}, .time = pass.time};
    if (spans_) states.terms = spans_->terms(sequence_share(pass));
    LayerRecorder watch;
    if (auxiliary_) watch = auxiliary_->watch(reading, pass, states.terms);
    const StackInputs reads = {.context = {.mask = {.max_lookback = document_lookback(
                                                        reading, pass.time, setting_.device)},
                                           .distances = {}}};
    states.hidden = residual_->run(layers_, x, reads, pass.child("layers"), watch);
    if (auxiliary_) auxiliary_->add_last(states.hidden, reading, pass, states.terms);
    return states;
  }

  OutputHeadSpec end() const override {
    const ModelOptions& common = options_.common;
    OutputHeadSpec end = output_head_spec(common);
    if (common.tied_embeddings) end.table = embedding_.table();
    return end;
  }
  bool supports_kv_cache() const override {
    return longspan::reads_on(options_.common.attention) &&
           (spans_ || options_.positions.supports_kv_cache());
  }
  std::string whole_sequence_setting() const override {
    return whole_sequence_type(options_.common.attention);
  }
  bool is_stateful() const override { return options_.stateful; }
  std::int64_t vocabulary() const override { return vocabulary_size_; }
  std::int64_t max_segment_length() const override {
    const std::int64_t of_positions = options_.positions_each_layer
                                          ? options_.positions.rows(setting_.segment)
                                          : (positions_ ? positions_->longest() : 0);
    return shorter_of(of_positions,
                      max_sequence_length_of(options_.common.attention, setting_.segment));
  }
  std::vector<std::pair<std::string, double>> metric_values() const override {
    if (spans_) return spans_->figures();
    return {};
  }

 private:
  // nullopt for keys of relative positions, and where each layer has its own positions.
  std::optional<PositionEmbedding> positions(const Scope& scope) const {
    if (options_.spans.any() || options_.positions_each_layer) return std::nullopt;
    return PositionEmbedding(scope, options_.positions, options_.common, setting_);
  }
  void add_positions(const Scope& scope) {
    for (std::size_t i = 0; i < layers_.size(); ++i)
      layers_[i].enter = layer_positions(scope.child("layers").child(static_cast<std::int64_t>(i)),
                                         options_.positions,
                                         options_.common,
                                         setting_);
  }
  AttentionOpFactory attention(const Scope& scope) {
    if (!spans_)
      return attention_ops(scope, options_.common, options_.positions, {}, setting_.segment);
    const auto patterns = attention_patterns(
        options_.common.attention, options_.common.attention_setting({}, setting_.segment));
    return [this, patterns](const Scope& attention, std::int64_t layer) {
      return spans_->add_layer(attention, patterns[static_cast<std::size_t>(layer)]);
    };
  }
  std::vector<Layer> layers(const Scope& scope) {
    const ModelOptions& common = options_.common;
    // GPT-2 initialization: smaller weights into the residual stream, so that its variance does not
    // grow with depth.
    const double depth = std::sqrt(2 * static_cast<double>(common.layers));
    std::optional<Initializer> initial_out;
    if (common.initial_deviation)
      initial_out = Initializer::normal(*common.initial_deviation / depth);
    return make_layers(
        scope,
        {.common = common,
         .initial_out = initial_out,
         .memory = setting_.memory,
         .rotary = spans_ ? std::nullopt : rotary_of(options_.positions, common, setting_)},
        attention(scope));
  }

  DecoderOptions options_;
  ModelBuildOptions setting_;
  std::int64_t vocabulary_size_;
  TokenEmbedding embedding_;
  std::optional<PositionEmbedding> positions_;
  std::optional<AdaptiveSpanStack> spans_;
  std::vector<Layer> layers_;
  std::unique_ptr<Residual> residual_;
  std::optional<IntermediateLosses> auxiliary_;  // in training
};

// A prediction further ahead than the next token would cross a document boundary.
std::string validate_decoder_combinations(const DecoderOptions& options, bool documents_apart) {
  if (!documents_apart || options.auxiliary.targets == 1) return "";
  return "model.num_future_tokens: more than 1 cannot be combined with "
         "data.documents.reset_attention_mask; set it to 1";
}

std::string validate_each_layer(const DecoderOptions& options, bool documents_apart) {
  if (!options.positions_each_layer) return "";
  if (documents_apart)
    return "model.per_layer_position_embeddings cannot be combined with "
           "data.documents.reset_attention_mask; set only one of them";
  if (options.spans.any())
    return "model.per_layer_position_embeddings cannot be combined with model.adaptive_span.type; "
           "set only one of them";
  return "";
}

}  // namespace

void declare(OptionTable& table, DecoderOptions& options, const PlannedBuildOptions& planned) {
  declare(table, options.common, planned);
  declare_logit_cap(table, options.common);
  declare_logit_scale(table, options.common);
  declare(table, options.positions, options.common, Sequences::segments, planned);
  declare(table, options.spans, options.common);
  for (const std::string key : {"model.position_embedding_type",
                                "model.max_position_embeddings",
                                "model.rope.theta",
                                "model.rope.partial_rotary_factor",
                                "model.rope.interleaved",
                                "model.rope.scaling.type"})
    table.warn(key, [&options]() -> std::string {
      return options.spans.any()
                 ? "model.adaptive_span.type replaces positions by relative positions"
                 : "";
    });
  table.add("model.per_layer_position_embeddings",
            options.positions_each_layer,
            "learned position table per layer, added to its input, instead of one at the bottom "
            "(Al-Rfou et al. 2018)",
            affects_weights(),
            needs(is("model.position_embedding_type", {"learned"})));
  table.check({"model.per_layer_position_embeddings",
               "model.position_embedding_type",
               "model.adaptive_span.type"},
              [&options, planned] {
                return validate_each_layer(options, planned && planned().documents_apart);
              });
  table.add(
      "model.stateful",
      options.stateful,
      "layers with a gated linear recurrence start a segment from their state at the end of the "
      "stream's previous segment, without a gradient; false: from zero. Other layers attend "
      "within the segment",
      needs(is("run.task", {"language_modeling"})),
      only_with(layer_type({"retention",
                            "gla",
                            "mamba2",
                            "delta_net",
                            "gated_delta_net",
                            "kimi_delta_attention",
                            "rwkv7"})));
  declare(table, options.auxiliary, options.common, planned);
  table.check({"model.num_future_tokens"}, [&options, planned] {
    return validate_decoder_combinations(options, planned && planned().documents_apart);
  });
}

BackboneFactory decoder_body(const DecoderOptions& options) {
  return [options](const Scope& scope, const ModelBuildOptions& setting) {
    if (!options.spans.any())
      throw_if_error(validate_positions(
          options.positions, options.common, Sequences::segments, setting.segment));
    throw_if_error(validate_each_layer(options, setting.documents_apart));
    if (options.positions_each_layer && !options.positions.learned())
      throw ConfigurationError(
          "model.per_layer_position_embeddings requires model.position_embedding_type: learned");
    throw_if_error(validate_decoder_combinations(options, setting.documents_apart));
    throw_if_error(validate_auxiliary(options.auxiliary, options.common, setting.segment));
    return std::make_unique<Decoder>(scope, options, setting);
  };
}

std::unique_ptr<Model> make_decoder(const DecoderOptions& options,
                                    const ModelBuildOptions& setting) {
  return std::make_unique<Model>(setting, decoder_body(options), lm_head());
}

Family decoder_family() {
  return {"decoder",
          "causal language model with absolute or relative positions (GPT-2, Radford et al. 2019)",
          {"language_modeling", "behavior_cloning"},
          declared(decoder_body)};
}

}  // namespace longspan
