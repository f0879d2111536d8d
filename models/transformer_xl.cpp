#include "models/transformer_xl.h"

#include <cmath>
#include <utility>

#include "framework/modeling/documents.h"
#include "framework/modeling/lm_head.h"
#include "framework/nn/attention/kv_cache.h"
#include "framework/nn/attention/relative_attention.h"
#include "framework/nn/embedding.h"
#include "framework/nn/positions.h"
#include "models/declare_family.h"
#include "models/stack.h"
#include "models/token_input.h"

namespace longspan {
namespace {

std::string memory_name(std::size_t layer) { return "mems/" + std::to_string(layer); }

class TransformerXl : public Backbone {
 public:
  TransformerXl(const Scope& scope,
                const TransformerXlOptions& options,
                const ModelBuildOptions& setting)
      : options_(options),
        setting_(setting),
        vocabulary_size_(vocabulary_of(options.common, setting.vocabulary)),
        embedding_(scope.child("embedding"),
                   vocabulary_size_,
                   options.common.width,
                   options.common.table_initial()),
        acted_(setting.is_policy
                   ? std::optional<PreviousActionInputs>(std::in_place,
                                                         scope,
                                                         options.common.width,
                                                         options.common.table_initial(),
                                                         setting)
                   : std::nullopt),
        patterns_(attention_patterns(
            options.common.attention,
            options.common.attention_setting({.memory = true}, setting.segment))),
        spans_(options.spans.any() ? std::optional<AdaptiveSpanStack>(
                                         std::in_place, scope, options.spans, options.common)
                                   : std::nullopt),
        layers_(layers(scope)),
        residual_(make_residual(options.common, setting.memory)) {}

  BackboneOutput run(const ModelInput& reading, const ForwardContext& pass) const override {
    const double scale = std::sqrt(static_cast<double>(options_.common.width));
    const Tensor tokens = columns_of(reading, "tokens", pass.time, setting_.device);
    const Variable seen = embedding_(tokens, scale, pass.time);
    const Variable x = drop(acted_ ? (*acted_)(seen, reading, scale, pass.time) : seen,
                            options_.common.dropout,
                            pass.child("embedding"));
    const RecurrentState& carried = reading.carried;
    // Positions beyond the span of every head are not stored.
    const std::int64_t longest =
        reading.extra_context +
        (spans_ ? std::min(reading.max_mem_len, spans_->max_mem_len()) : reading.max_mem_len);
    BackboneOutput states = {.time = pass.time};
    if (spans_) {
      states.carried.all = std::min(longest, carried.length() + pass.time.total);
      states.terms = spans_->terms(sequence_share(pass));
    }
    StackInputs reads = {.context = context(reading, pass)};
    // Later chunks of a sequence see the memory through the cached keys of the first one.
    const std::int64_t chunk = pass.kv_cache ? pass.kv_cache->chunk() : 0;
    if (chunk == 0)
      for (const RecurrentStateTensor& layer : carried.tensors)
        reads.memories.emplace_back(layer.tensor);
    std::vector<Tensor> memories;
    for (const Variable& memory : reads.memories) memories.push_back(memory.value());
    std::int64_t remembered = carried.length(), time = pass.time.total;
    if (pass.kv_cache) {
      require(pass.kv_cache->sequence().has_value(),
              "transformer_xl decodes from its memory, without a KV cache");
      const ChunkedSequence& sequence = *pass.kv_cache->sequence();
      time = sequence.chunk(chunk).count();
      if (chunk > 0) {
        memories = std::exchange(pass.kv_cache->memories(), {});
        remembered = std::min(longest, remembered + sequence.chunk(chunk).begin);
      }
    }
    const auto keep = [&](std::size_t layer, const Tensor& input) {
      if (longest == 0 || (pass.kv_cache && !pass.kv_cache->is_new_chunk())) return;
      const Tensor before = memories.empty() ? Tensor() : memories[layer];
      states.carried.tensors.push_back(
          {memory_name(layer),
           update_memory(before, remembered, input, time, longest, setting_.mesh)});
    };
    states.hidden = residual_->run(layers_, x, reads, pass.child("layers"), {.input = keep});
    if (pass.kv_cache)
      for (const RecurrentStateTensor& layer : states.carried.tensors)
        pass.kv_cache->memories().push_back(layer.tensor);
    return states;
  }

  OutputHeadSpec end() const override {
    OutputHeadSpec end = output_head_spec(options_.common);
    if (end.norm) end.norm = initial_gain();
    end.dropout = options_.common.dropout;
    end.bias = options_.output_bias;
    if (options_.common.tied_embeddings) end.table = embedding_.table();
    return end;
  }
  std::int64_t vocabulary() const override { return vocabulary_size_; }
  std::string whole_sequence_setting() const override { return ""; }
  std::int64_t max_mem_len() const override {
    // A dry run cannot truncate by learned spans.
    if (spans_ && setting_.device.state().is_meta())
      return std::min(options_.memory, spans_->max_mem_len());
    return options_.memory;
  }
  std::vector<std::pair<std::string, double>> metric_values() const override {
    if (spans_) return spans_->figures();
    return {};
  }
  std::vector<std::string> recurrent_state_names() const override {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < layers_.size(); ++i) names.push_back(memory_name(i));
    return names;
  }

 private:
  Initializer initial_gain() const {
    return Initializer::normal(options_.common.initial_deviation.value_or(0), 1);
  }

  std::vector<Layer> layers(const Scope& scope) {
    const ModelOptions& common = options_.common;
    std::optional<PositionBiases> shared;
    const auto biases = [&](const Scope& where) {
      return PositionBiases(where, common.heads, common.head_dim(), common.table_initial());
    };
    if (options_.share_position_biases && !spans_) shared = biases(scope);
    return make_layers(
        scope,
        {.common = common,
         .attention_bias = false,
         .initial_out = common.initial(),
         .memory = setting_.memory,
         .initial_gain = initial_gain()},
        [&](const Scope& attention, std::int64_t layer) -> std::unique_ptr<AttentionOp> {
          if (spans_)
            return spans_->add_layer(attention, patterns_[static_cast<std::size_t>(layer)]);
          return std::make_unique<RelativeAttention>(
              attention,
              RelativeAttention::Options{.width = common.width,
                                         .heads = common.heads,
                                         .dim = common.head_dim(),
                                         .dropout = common.attention_dropout,
                                         .initial = common.initial().value_or(Initializer::xavier(
                                             common.width, common.heads * common.head_dim()))},
              shared ? *shared : biases(attention),
              patterns_[static_cast<std::size_t>(layer)],
              common.softmax_form(attention));
        });
  }

  Mask rules(std::int64_t max_mem_len) const {
    return options_.same_length && max_mem_len > 0
               ? masks::causal() & masks::window(max_mem_len - 1, 0)
               : masks::causal();
  }

  // Returns the largest relative position of a key in the pass, after `memory` positions.
  std::int64_t largest_distance(std::int64_t memory, const ForwardContext& pass) const {
    if (!pass.kv_cache) return memory + pass.time.total - 1;
    const Range chunk = pass.kv_cache->sequence()->chunk(pass.kv_cache->chunk());
    std::int64_t before = 0;  // keys before the chunk that a layer attends to
    for (const AttentionPattern& pattern : patterns_)
      before = std::max(before, pattern.max_distance().value_or(memory + chunk.begin));
    // The first chunk attends to the whole memory, whatever the window.
    if (chunk.begin == 0) before = memory;
    return std::min(before, memory + chunk.begin) + chunk.count() - 1;
  }

  AttentionContext context(const ModelInput& reading, const ForwardContext& pass) const {
    const std::int64_t memory = reading.carried.length();
    const AttentionMask mask = {
        .rules = rules(reading.max_mem_len),
        .query_begin = memory,
        .key_padding = expired_keys(reading, setting_.device),
        .max_lookback = document_lookback(reading, pass.time, setting_.device),
        .sorted = separate_episodes(
            reading, options_.common.heads / setting_.mesh.tensor.size(), setting_.device)};
    if (spans_) return {.mask = mask, .distances = {}};
    const Tensor table = sinusoids(SinusoidLayout::halves,
                                   0,
                                   largest_distance(memory, pass) + 1,
                                   options_.common.width,
                                   options_.clamp_length.value_or(-1),
                                   setting_.compute,
                                   setting_.device);
    // The encodings are one table for all streams, so every rank applies the same dropout mask.
    ForwardContext positions = pass.child("positions");
    positions.first_stream = 0;
    positions.time = {};
    const Shape flat = table.shape();
    const Variable dropped =
        drop(Variable(table.reshape({1, flat[0], flat[1]})), options_.common.dropout, positions);
    return {.mask = mask, .distances = reshape(dropped, flat)};
  }

  TransformerXlOptions options_;
  ModelBuildOptions setting_;
  std::int64_t vocabulary_size_;
  TokenEmbedding embedding_;
  std::optional<PreviousActionInputs> acted_;
  std::vector<AttentionPattern> patterns_;  // of each layer
  std::optional<AdaptiveSpanStack> spans_;
  std::vector<Layer> layers_;
  std::unique_ptr<Residual> residual_;
};

}  // namespace

void declare(OptionTable& table,
             TransformerXlOptions& options,
             const PlannedBuildOptions& planned) {
  declare(table, options.common, planned, {.memory = true});
  declare_logit_cap(table, options.common);
  declare_logit_scale(table, options.common);
  table.warn("model.attention.bias", []() -> std::string {
    return "model.family: transformer_xl does not support attention biases";
  });
  table.add("model.mem_len",
            options.memory,
            "length of the Transformer-XL memory in training, in tokens",
            between(0, max_sequence_length));
  table.add("model.same_length",
            options.same_length,
            "same context length for all queries, at most the length of the memory",
            needs(is_above("model.mem_len", 0)));
  table.add("model.clamp_len",
            options.clamp_length,
            "maximum relative position, to which larger ones are clamped; none: unlimited",
            between(0, max_sequence_length));
  table.add("model.share_position_biases",
            options.share_position_biases,
            "position biases u and v shared by all layers",
            affects_weights());
  table.add(
      "model.lm_head_bias", options.output_bias, "bias of the output layer", affects_weights());
  declare(table, options.spans, options.common);
  for (const std::string key : {"model.clamp_len", "model.share_position_biases"})
    table.warn(key, [&options]() -> std::string {
      return options.spans.any() ? "model.adaptive_span.type replaces the relative encodings" : "";
    });
  // Actions are sampled without dropout; training with it would change their probabilities.
  const auto check_dropout = [&](const std::string& key, const double& dropout) {
    table.check({key, "run.task"}, [&dropout, key, planned]() -> std::string {
      if (dropout == 0 || !planned().is_policy) return "";
      return fmt::format(
          "{}: {} cannot be combined with run.task: reinforcement_learning; set it to 0",
          key,
          dropout);
    });
  };
  if (planned) {
    check_dropout("model.dropout", options.common.dropout);
    check_dropout("model.attention.dropout", options.common.attention_dropout);
  }
  const Condition is_policy = is("run.task", {"reinforcement_learning"});
  table.add_rule("model.norm.type", value_excludes("powernorm", is_policy));
  table.add_rule("model.adaptive_span.type", excludes(is_policy));
}

BackboneFactory transformer_xl_body(const TransformerXlOptions& options) {
  return [options](const Scope& scope, const ModelBuildOptions& setting) {
    return std::make_unique<TransformerXl>(scope, options, setting);
  };
}

std::unique_ptr<Model> make_transformer_xl(const TransformerXlOptions& options,
                                           const ModelBuildOptions& setting) {
  return std::make_unique<Model>(setting, transformer_xl_body(options), lm_head());
}

Family transformer_xl_family() {
  return {"transformer_xl",
          "causal language model with segment-level recurrence and relative positions (Dai et al. "
          "2019)",
          {"language_modeling", "behavior_cloning", "reinforcement_learning"},
          declared(transformer_xl_body)};
}

}  // namespace longspan
