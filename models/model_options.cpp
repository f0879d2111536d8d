#include "models/model_options.h"

#include <algorithm>
#include <iterator>

#include "framework/nn/attention/attention.h"

namespace longspan {
namespace {

const std::vector<std::string> attention_keys = {"model.attention",
                                                 "model.layers",
                                                 "model.heads",
                                                 "model.attention_window",
                                                 "model.attention_stride",
                                                 "model.attention_summary",
                                                 "model.attention_summary_groups"};

// What is wrong with fewer heads of keys than of queries; empty where nothing is.
std::string key_heads_problem(const ModelOptions& options, const MeshShape& mesh) {
  if (!options.key_heads) return "";
  AttentionOptions attention = options.attention;
  std::ranges::copy(attention.encoder_kinds, std::back_inserter(attention.kinds));
  const bool shared =
      has_kind(attention, "lsh") || (has_kind(attention, "routing") && attention.routing.shared);
  if (shared && *options.key_heads != options.heads)
    return fmt::format(
        "model.key_heads is {}, but queries are keys too in model.attention: {}; leave "
        "it out",
        *options.key_heads,
        has_kind(attention, "lsh") ? "lsh" : "routing with model.routing_shared");
  return longspan::key_heads_problem(*options.key_heads, options.heads, mesh);
}

// What is wrong with the options beside those of other sections.
void check_beside(OptionTable& table,
                  const ModelOptions& options,
                  const PlannedSetting& planned,
                  const FamilyTraits& traits) {
  table.check(attention_keys_beside(traits), [&options, planned, traits]() -> std::string {
    const bool is_told =
        !problem_of(options.attention, options.attention_setting(traits, 0)).empty();
    return is_told ? "" : attention_problem(options, planned(), traits);
  });
  table.check({"model.heads", "parallel.tensor"},
              [&options, planned] { return heads_problem(options.heads, planned().mesh.shape); });
  table.check({"model.key_heads", "parallel.tensor"}, [&options, planned]() -> std::string {
    const MeshShape& mesh = planned().mesh.shape;
    const bool told =
        !key_heads_problem(options, {}).empty() || !heads_problem(options.heads, mesh).empty();
    return told ? "" : key_heads_problem(options, mesh);
  });
  table.check({"memory.recompute", "model.residual", "model.layers"},
              [&options, planned] { return recompute_problem(options, planned().memory); });
  table.check({"memory.reconstruction_check_every", "model.residual"},
              [&options, planned] { return reconstruction_problem(options, planned().memory); });
}

void declare_sizes(OptionTable& table, ModelOptions& options) {
  table.add("model.vocabulary",
            options.vocabulary,
            "ids of the embedding and of the output; none: the tokenizer's",
            between(1, std::int64_t{1} << 31),
            fixes_weights());
  table.add(
      "model.layers", options.layers, "layers of the stack", between(1, 1 << 16), fixes_weights());
  table.add("model.width",
            options.width,
            "features of the stream between layers",
            between(1, 1 << 24),
            fixes_weights());
  table.add("model.heads", options.heads, "attention heads", between(1, 1 << 16), fixes_weights());
  table.add("model.head_width",
            options.head_width,
            "features of a head; none: model.width / model.heads",
            between(1, 1 << 16),
            fixes_weights());
  table.add("model.key_heads",
            options.key_heads,
            "heads of keys and values, each for as many heads of queries in a row (Ainslie et al. "
            "2023), 1 for all of them (Shazeer 2019); none: model.heads",
            between(1, 1 << 16),
            fixes_weights());
  table.add(
      "model.query_key_norm",
      options.query_key_norm,
      "a norm of model.norm_kind over the features of each head of queries and of keys (Henry et "
      "al. 2020)",
      fixes_weights());
  declare_scores(table, options);
  table.add("model.attention_bias",
            options.attention_bias,
            "the projections of attention that add a bias, of query, key, value and out; []: none",
            one_of({"query", "key", "value", "out"}),
            fixes_weights());
  table.add("model.feed_forward",
            options.feed_forward,
            "hidden features of the feed-forward layers; none: 4 model.width, or gated 8/3 of it, "
            "rounded "
            "up to a multiple of 8",
            between(1, 1 << 28),
            fixes_weights());
  table.add(
      "model.feed_forward_kind",
      options.feed_forward_kind,
      "what feed-forward layers make of x: W2 f(W1 x), or gated W2 (f(W1 x) W3 x), the product "
      "by element (Shazeer 2020), f being model.activation",
      {{"plain", FeedForwardKind::plain}, {"gated", FeedForwardKind::gated}},
      fixes_weights());
  table.add("model.feed_forward_bias",
            options.feed_forward_bias,
            "biases of the feed-forward layers",
            fixes_weights());
  table.add("model.activation",
            options.activation,
            "activation of the feed-forward layers",
            {{"relu", Activation::relu},
             {"gelu", Activation::gelu},
             {"gelu_tanh", Activation::gelu_tanh},
             {"silu", Activation::silu}},
            fixes_weights());
}

void declare_stream(OptionTable& table, ModelOptions& options) {
  table.add(
      "model.sublayers",
      options.sublayers,
      "a layer's attention and then its feed-forward layer (serial), or the sum of both, which "
      "read the same norm of the stream (parallel, GPT-J and PaLM)",
      {{"serial", SublayerOrder::serial}, {"parallel", SublayerOrder::parallel}},
      fixes_weights());
  table.add("model.norm",
            options.norm,
            "a norm after the residual sum (post) or before each sublayer (pre)",
            {{"post", NormPlacement::post}, {"pre", NormPlacement::pre}},
            fixes_weights());
  table.add(
      "model.norm_kind",
      options.norm_kind,
      "what norms divide by: the deviation, once the mean is taken away (layer, Ba et al. "
      "2016), or the root of the mean square (rms, Zhang and Sennrich 2019), which has no "
      "bias; or, feature by feature, the root of the mean square over all tokens (power, Shen "
      "et al. 2020), a moving average that is not learned by gradients",
      {{"layer", NormKind::layer}, {"rms", NormKind::rms}, {"power", NormKind::power}},
      fixes_weights());
  table.add("model.norm_epsilon",
            options.norm_epsilon,
            "what norms add to the variance or mean square that they divide by the root of",
            more_than(0.0),
            fixes_weights());
  table.add("model.power_decay",
            options.power.decay,
            "with model.norm_kind: power, of its moving averages",
            at_least(0.0),
            less_than(1.0));
  table.add("model.power_warmup",
            options.power.warmup,
            "with model.norm_kind: power, the first steps of training, in which tokens are divided "
            "by the mean square of their own batch, or of their part of it with "
            "training.accumulation, with its exact gradient",
            at_least(0));
  for (const char* key : {"model.power_decay", "model.power_warmup"})
    table.warn(key, [&options]() -> std::string {
      return options.norm_kind == NormKind::power ? "" : "model.norm_kind is not power";
    });
  table.add("model.final_norm",
            options.final_norm,
            "a norm on top of the stack; none: with model.norm pre",
            fixes_weights());
  table.add("model.residual",
            options.residual,
            "what the sublayers add to: one stream, or two in turn, which the backward pass "
            "rebuilds so that memory does not grow with depth (Kitaev et al. 2020); or one that "
            "they change through gates (Parisotto et al. 2019), which cannot be rebuilt, but "
            "computed again",
            {{"plain", ResidualKind::plain},
             {"reversible", ResidualKind::reversible},
             {"gated", ResidualKind::gated}},
            fixes_weights());
  table.add("model.reversible_output",
            options.reversible_output,
            "how the two streams become one at the end: their mean, or side by side, which makes "
            "the output layer twice as wide",
            {{"mean", StreamJoin::mean}, {"concatenate", StreamJoin::concatenate}},
            fixes_weights());
}

void declare_gate(OptionTable& table, GateOptions& gate) {
  table.add("model.gate",
            gate.kind,
            "with model.residual: gated, how the stream x and a sublayer's output y become one, s "
            "being the logistic function: sum, x + y; input, s(W x) x + y; output, x + s(W x - b) "
            "y; highway, s(W x + b) x + (1 - s(W x + b)) y; sigtanh, x + s(W y - b) tanh(U y); "
            "gru, (1 - z) x + z h of a gated recurrent unit whose input is y",
            {{"gru", GateKind::gru},
             {"highway", GateKind::highway},
             {"input", GateKind::input},
             {"output", GateKind::output},
             {"sigtanh", GateKind::sigtanh},
             {"sum", GateKind::sum}},
            fixes_weights());
  table.add("model.gate_bias",
            gate.bias,
            "where the gates' biases b start: the larger, the nearer each layer is to passing the "
            "stream through; none: 2 for gru, 1 for others",
            between(-100.0, 100.0));
  table.add("model.gate_biases",
            gate.biases,
            "biases of the reset and the candidate of gru and sigtanh too, which the paper has not",
            fixes_weights());
  table.add("model.gate_relu",
            gate.relu,
            "a relu of what a sublayer gives to its gate; without it two linear maps follow each "
            "other");
}

// What is wrong with the gates; empty where nothing is.
std::string gate_problem(const ModelOptions& options) {
  const GateOptions& gate = options.gate;
  if (options.residual != ResidualKind::gated) {
    const std::pair<const char*, bool> set[] = {{"gate", gate.kind != GateKind::gru},
                                                {"gate_bias", gate.bias.has_value()},
                                                {"gate_biases", gate.biases},
                                                {"gate_relu", !gate.relu}};
    for (const auto& [key, given] : set)
      if (given) return fmt::format("model.{} is for model.residual: gated", key);
    return "";
  }
  if (options.norm == NormPlacement::post)
    return "model.residual: found gated with model.norm post, where no stream reaches the top "
           "unchanged; set model.norm to pre";
  if (gate.bias && (gate.kind == GateKind::sum || gate.kind == GateKind::input))
    return "model.gate_bias: a gate of this kind has no bias; leave it out, or set model.gate to "
           "gru, highway, output or sigtanh";
  if (gate.biases && gate.kind != GateKind::gru && gate.kind != GateKind::sigtanh)
    return "model.gate_biases is for model.gate: gru and sigtanh, which have a candidate";
  return "";
}

void declare_dropout(OptionTable& table, ModelOptions& options) {
  table.add("model.dropout",
            options.dropout,
            "dropout of embeddings, positions, sublayers and hidden layers",
            at_least(0.0),
            less_than(1.0));
  table.add("model.attention_dropout",
            options.attention_dropout,
            "dropout of the attention probabilities",
            at_least(0.0),
            less_than(1.0));
}

}  // namespace

void declare(OptionTable& table,
             ModelOptions& options,
             const PlannedSetting& planned,
             const FamilyTraits& traits) {
  declare_sizes(table, options);
  declare_stream(table, options);
  declare_gate(table, options.gate);
  table.check({"model.residual",
               "model.gate",
               "model.gate_bias",
               "model.gate_biases",
               "model.gate_relu",
               "model.norm"},
              [&options] { return gate_problem(options); });
  declare_dropout(table, options);
  declare(table, options.attention, [&options](const std::string& kinds) {
    return layers_of_other_weights(kinds, options.layers, options.attention.global_projections);
  });
  table.add("model.tied_embeddings",
            options.tied_embeddings,
            "the output layer uses the table of the embedding",
            fixes_weights());
  table.add(
      "model.initial_deviation",
      options.initial_deviation,
      "standard deviation of the initial weights; none: that of matrices by their size (Glorot and "
      "Bengio 2010), that of embeddings model.width to the power of -1/2",
      at_least(0.0));
  table.check(attention_keys, [&options, traits] {
    return problem_of(options.attention, options.attention_setting(traits, 0));
  });
  if (!traits.looks_at_side)
    table.warn("model.attention_dropout", [&options]() -> std::string {
      return has_probabilities(options.attention)
                 ? ""
                 : "no layer of model.attention has probabilities to drop";
    });
  if (planned) check_beside(table, options, planned, traits);
  table.check({"model.residual", "model.norm"}, [&options]() -> std::string {
    if (options.residual != ResidualKind::reversible || options.norm == NormPlacement::pre)
      return "";
    return "model.residual: found reversible with model.norm post, whose norm of the sum cannot be "
           "undone; set model.norm to pre";
  });
  table.check({"model.reversible_output", "model.residual", "model.tied_embeddings"},
              [&options]() -> std::string {
                if (options.reversible_output != StreamJoin::concatenate) return "";
                if (options.residual != ResidualKind::reversible)
                  return "model.reversible_output is for model.residual: reversible";
                if (!options.tied_embeddings) return "";
                return "model.reversible_output: concatenate makes the output layer twice as wide "
                       "as the embedding; set model.tied_embeddings to false";
              });
  if (traits.looks_at_side)
    table.check({"model.sublayers"}, [&options]() -> std::string {
      if (options.sublayers == SublayerOrder::serial) return "";
      return "model.sublayers: found parallel in a family whose decoder looks at an encoder "
             "between "
             "the two; set it to serial";
    });
  table.check({"model.attention_sinks", "model.score_cap", "model.score_scale", "model.attention"},
              [&options] { return softmax_form_problem(options); });
  table.check({"model.key_heads", "model.heads", "model.attention"},
              [&options] { return key_heads_problem(options, {}); });
  table.check({"model.query_key_norm", "model.norm_kind"}, [&options]() -> std::string {
    if (!options.query_key_norm || options.norm_kind != NormKind::power) return "";
    return "model.query_key_norm is true with model.norm_kind: power, whose averages are of the "
           "features of a stream; set model.norm_kind to layer or rms";
  });
  table.check({"model.width", "model.heads", "model.head_width"}, [&options]() -> std::string {
    if (options.head_width || options.width % options.heads == 0) return "";
    return fmt::format(
        "model.width is {}, which does not divide by model.heads = {}; set model.head_width or "
        "change one",
        options.width,
        options.heads);
  });
}

ProjectionBiases ModelOptions::projection_biases() const {
  const auto has = [this](const char* name) {
    return std::ranges::count(attention_bias, name) > 0;
  };
  ProjectionBiases biases(false);
  biases.query = has("query");
  biases.key = has("key");
  biases.value = has("value");
  biases.out = has("out");
  return biases;
}

std::vector<std::string> attention_keys_beside(const FamilyTraits& traits) {
  std::vector<std::string> keys = attention_keys;
  for (const std::string name : {"dilation", "global", "random", "block", "seed"})
    keys.push_back("model.attention_" + name);
  for (const auto& [key, kinds] : readers_of_mechanism_keys()) keys.push_back("model." + key);
  keys.push_back(traits.sequences == Sequences::segments ? "data.segment" : "data.longest");
  for (const std::string key : {"parallel.context", "parallel.tensor", "precision.compute"})
    keys.push_back(key);
  return keys;
}

std::string attention_problem(const ModelOptions& options,
                              const ModelSetting& setting,
                              const FamilyTraits& traits) {
  AttentionSetting asked = options.attention_setting(traits, setting.segment);
  asked.compute = setting.compute;
  asked.documents = setting.documents_apart;
  if (heads_problem(options.heads, setting.mesh.shape).empty()) asked.mesh = setting.mesh.shape;
  return problem_of(options.attention, asked);
}

std::string recompute_problem(const ModelOptions& options, const MemoryOptions& memory) {
  const Recomputation again = memory.recomputation();
  if (options.residual == ResidualKind::reversible && again.kind != Recomputation::Kind::none)
    return fmt::format(
        "memory.recompute is {}, but model.residual: reversible computes every layer again anyway; "
        "set memory.recompute to none",
        memory.recompute);
  if (again.together > options.layers)
    return fmt::format(
        "memory.recompute is {}, but model.layers is {}; set it to at most that many",
        memory.recompute,
        options.layers);
  return "";
}

std::string reconstruction_problem(const ModelOptions& options, const MemoryOptions& memory) {
  if (options.residual == ResidualKind::reversible || memory.reconstruction_check_every == 0)
    return "";
  return fmt::format(
      "memory.reconstruction_check_every is {}, but only model.residual: reversible rebuilds "
      "anything; set it to 0",
      memory.reconstruction_check_every);
}

std::int64_t vocabulary_of(const ModelOptions& options, std::int64_t tokenizer_ids) {
  if (options.vocabulary && *options.vocabulary < tokenizer_ids)
    throw ConfigurationError(
        "model.vocabulary is {}, but the tokenizer has {} ids", *options.vocabulary, tokenizer_ids);
  return options.vocabulary.value_or(tokenizer_ids);
}

}  // namespace longspan
