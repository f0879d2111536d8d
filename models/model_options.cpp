#include "models/model_options.h"

#include <algorithm>
#include <iterator>

#include "framework/nn/attention/attention.h"

namespace longspan {
namespace {

const std::vector<std::string> attention_keys = {"model.attention.layer_types",
                                                 "model.num_hidden_layers",
                                                 "model.num_attention_heads",
                                                 "model.attention.sliding_window",
                                                 "model.attention.stride",
                                                 "model.attention.summary.num_columns",
                                                 "model.attention.summary.num_patterns"};

// What is wrong with fewer heads of keys than of queries; empty where nothing is.
std::string key_heads_problem(const ModelOptions& options, const MeshShape& mesh) {
  if (!options.key_heads) return "";
  AttentionOptions attention = options.attention;
  std::ranges::copy(attention.encoder_kinds, std::back_inserter(attention.kinds));
  const bool shared =
      has_kind(attention, "lsh") || (has_kind(attention, "routing") && attention.routing.shared);
  if (shared && *options.key_heads != options.heads)
    return fmt::format(
        "model.num_key_value_heads is {}, but queries are keys too in model.attention.layer_types: "
        "{}; leave "
        "it out",
        *options.key_heads,
        has_kind(attention, "lsh") ? "lsh" : "routing with model.attention.routing.share_qk");
  return longspan::key_heads_problem(*options.key_heads, options.heads, mesh);
}

// What is wrong with the options beside those of other sections.
void check_beside(OptionTable& table,
                  const ModelOptions& options,
                  const PlannedBuildOptions& planned,
                  const FamilyTraits& traits) {
  table.check(attention_keys_beside(traits), [&options, planned, traits]() -> std::string {
    const bool is_told =
        !problem_of(options.attention, options.attention_setting(traits, 0)).empty();
    return is_told ? "" : attention_problem(options, planned(), traits);
  });
  table.check({"model.num_attention_heads", "parallel.tensor_parallel_size"},
              [&options, planned] { return heads_problem(options.heads, planned().mesh.shape); });
  table.check({"model.num_key_value_heads", "parallel.tensor_parallel_size"},
              [&options, planned]() -> std::string {
                const MeshShape& mesh = planned().mesh.shape;
                const bool told = !key_heads_problem(options, {}).empty() ||
                                  !heads_problem(options.heads, mesh).empty();
                return told ? "" : key_heads_problem(options, mesh);
              });
  table.check({"memory.recompute_granularity",
               "memory.recompute_num_layers",
               "model.residual.type",
               "model.num_hidden_layers"},
              [&options, planned] { return recompute_problem(options, planned().memory); });
  table.check({"memory.reconstruction_check_interval", "model.residual.type"},
              [&options, planned] { return reconstruction_problem(options, planned().memory); });
}

void declare_sizes(OptionTable& table, ModelOptions& options) {
  table.add("model.vocab_size",
            options.vocabulary,
            "ids of the embedding and of the output; none: the tokenizer's",
            between(1, std::int64_t{1} << 31),
            affects_weights());
  table.add("model.num_hidden_layers",
            options.layers,
            "layers of the stack",
            between(1, 1 << 16),
            affects_weights());
  table.add("model.hidden_size",
            options.width,
            "features of the stream between layers",
            between(1, 1 << 24),
            affects_weights());
  table.add("model.num_attention_heads",
            options.heads,
            "attention heads",
            between(1, 1 << 16),
            affects_weights());
  table.add("model.head_dim",
            options.head_width,
            "features of a head; none: model.hidden_size / model.num_attention_heads",
            between(1, 1 << 16),
            affects_weights());
  table.add("model.num_key_value_heads",
            options.key_heads,
            "heads of keys and values, each for as many heads of queries in a row (Ainslie et al. "
            "2023), 1 for all of them (Shazeer 2019); none: model.num_attention_heads",
            between(1, 1 << 16),
            affects_weights());
  table.add(
      "model.attention.qk_norm",
      options.query_key_norm,
      "a norm of model.norm.type over the features of each head of queries and of keys (Henry et "
      "al. 2020)",
      affects_weights());
  declare_scores(table, options);
  table.add("model.attention.bias",
            options.attention_bias,
            "the projections of attention that add a bias, of query, key, value and out; []: none",
            one_of({"query", "key", "value", "out"}),
            affects_weights());
  table.add("model.intermediate_size",
            options.feed_forward,
            "hidden features of the feed-forward layers; none: 4 model.hidden_size, or 8/3 of it, "
            "rounded up "
            "to a multiple of 8, with a model.activation that has a gate",
            between(1, 1 << 28),
            affects_weights());
  table.add("model.mlp_bias",
            options.feed_forward_bias,
            "biases of the feed-forward layers",
            affects_weights());
  table.add(
      "model.activation",
      options.activation,
      "feed-forward layers compute W2 f(W1 x) with f relu, gelu, gelu_tanh or silu, or W2 (f(W1 "
      "x) * W3 x) (Shazeer 2020) with f relu (reglu), gelu (geglu), gelu_tanh (geglu_tanh) or "
      "silu (swiglu)",
      {{"relu", FeedForwardActivation::relu},
       {"gelu", FeedForwardActivation::gelu},
       {"gelu_tanh", FeedForwardActivation::gelu_tanh},
       {"silu", FeedForwardActivation::silu},
       {"reglu", FeedForwardActivation::reglu},
       {"geglu", FeedForwardActivation::geglu},
       {"geglu_tanh", FeedForwardActivation::geglu_tanh},
       {"swiglu", FeedForwardActivation::swiglu}},
      affects_weights());
}

void declare_stream(OptionTable& table, ModelOptions& options) {
  table.add(
      "model.use_parallel_residual",
      options.sublayers,
      "attention and the feed-forward layer read the same norm of the stream and are added (GPT-J, "
      "PaLM); false: one follows the other",
      {{"false", SublayerOrder::serial}, {"true", SublayerOrder::parallel}},
      affects_weights());
  table.add("model.norm.position",
            options.norm,
            "a norm after the residual sum (post) or before each sublayer (pre)",
            {{"post", NormPosition::post}, {"pre", NormPosition::pre}},
            affects_weights());
  table.add(
      "model.norm.type",
      options.norm_kind,
      "what norms divide by: the deviation, once the mean is taken away (layernorm, Ba et al. "
      "2016), or the root of the mean square (rmsnorm, Zhang and Sennrich 2019), which has no "
      "bias; or, feature by feature, the root of the mean square over all tokens (powernorm, Shen "
      "et al. 2020), a moving average that is not learned by gradients",
      {{"layernorm", NormKind::layer}, {"rmsnorm", NormKind::rms}, {"powernorm", NormKind::power}},
      affects_weights());
  table.add("model.norm.eps",
            options.norm_epsilon,
            "what norms add to the variance or mean square that they divide by the root of",
            more_than(0.0),
            affects_weights());
  table.add("model.norm.power_alpha",
            options.power.decay,
            "with model.norm.type: powernorm, of its moving averages",
            at_least(0.0),
            less_than(1.0));
  table.add(
      "model.norm.power_warmup_steps",
      options.power.warmup,
      "with model.norm.type: powernorm, the first steps of training, in which tokens are divided "
      "by the mean square of their own batch, or of their part of it with "
      "training.gradient_accumulation_steps, with its exact gradient",
      at_least(0));
  for (const char* key : {"model.norm.power_alpha", "model.norm.power_warmup_steps"})
    table.warn(key, [&options]() -> std::string {
      return options.norm_kind == NormKind::power ? "" : "model.norm.type is not powernorm";
    });
  table.add("model.norm.final",
            options.final_norm,
            "a norm on top of the stack; none: with model.norm.position pre",
            affects_weights());
  table.add("model.residual.type",
            options.residual,
            "what the sublayers add to: one stream, or two in turn, which the backward pass "
            "rebuilds so that memory does not grow with depth (Kitaev et al. 2020); or one that "
            "they change through gates (Parisotto et al. 2019), which cannot be rebuilt, but "
            "computed again",
            {{"standard", ResidualKind::plain},
             {"reversible", ResidualKind::reversible},
             {"gated", ResidualKind::gated}},
            affects_weights());
  table.add("model.residual.reversible_output",
            options.reversible_output,
            "how the two streams become one at the end: their mean, or side by side, which makes "
            "the output layer twice as wide",
            {{"mean", StreamMerge::mean}, {"concat", StreamMerge::concatenate}},
            affects_weights());
}

void declare_gate(OptionTable& table, GateOptions& gate) {
  table.add(
      "model.residual.gate.type",
      gate.kind,
      "with model.residual.type: gated, how the stream x and a sublayer's output y become one, s "
      "being the logistic function: sum, x + y; input, s(W x) x + y; output, x + s(W x - b) "
      "y; highway, s(W x + b) x + (1 - s(W x + b)) y; sigtanh, x + s(W y - b) tanh(U y); "
      "gru, (1 - z) x + z h of a gated recurrent unit whose input is y",
      {{"gru", GateKind::gru},
       {"highway", GateKind::highway},
       {"input", GateKind::input},
       {"output", GateKind::output},
       {"sigtanh", GateKind::sigtanh},
       {"sum", GateKind::sum}},
      affects_weights());
  table.add("model.residual.gate.bias_init",
            gate.bias,
            "where the gates' biases b start: the larger, the nearer each layer is to passing the "
            "stream through; none: 2 for gru, 1 for others",
            between(-100.0, 100.0));
  table.add("model.residual.gate.extra_biases",
            gate.biases,
            "biases of the reset and the candidate of gru and sigtanh too, which the paper has not",
            affects_weights());
  table.add("model.residual.gate.relu",
            gate.relu,
            "a relu of what a sublayer gives to its gate; without it two linear maps follow each "
            "other");
}

// What is wrong with the gates; empty where nothing is.
std::string gate_problem(const ModelOptions& options) {
  const GateOptions& gate = options.gate;
  if (options.residual != ResidualKind::gated) {
    const std::pair<const char*, bool> set[] = {{"type", gate.kind != GateKind::gru},
                                                {"bias_init", gate.bias.has_value()},
                                                {"extra_biases", gate.biases},
                                                {"relu", !gate.relu}};
    for (const auto& [key, given] : set)
      if (given)
        return fmt::format("model.residual.gate.{} is for model.residual.type: gated", key);
    return "";
  }
  if (options.norm == NormPosition::post)
    return "model.residual.type: found gated with model.norm.position post, where no stream "
           "reaches the top "
           "unchanged; set model.norm.position to pre";
  if (gate.bias && (gate.kind == GateKind::sum || gate.kind == GateKind::input))
    return "model.residual.gate.bias_init: a gate of this kind has no bias; leave it out, or set "
           "model.residual.gate.type to "
           "gru, highway, output or sigtanh";
  if (gate.biases && gate.kind != GateKind::gru && gate.kind != GateKind::sigtanh)
    return "model.residual.gate.extra_biases is for model.residual.gate.type: gru and sigtanh, "
           "which have a candidate";
  return "";
}

void declare_dropout(OptionTable& table, ModelOptions& options) {
  table.add("model.dropout",
            options.dropout,
            "dropout of embeddings, positions, sublayers and hidden layers",
            at_least(0.0),
            less_than(1.0));
  table.add("model.attention.dropout",
            options.attention_dropout,
            "dropout of the attention probabilities",
            at_least(0.0),
            less_than(1.0));
}

}  // namespace

void declare(OptionTable& table,
             ModelOptions& options,
             const PlannedBuildOptions& planned,
             const FamilyTraits& traits) {
  declare_sizes(table, options);
  declare_stream(table, options);
  declare_gate(table, options.gate);
  table.check({"model.residual.type",
               "model.residual.gate.type",
               "model.residual.gate.bias_init",
               "model.residual.gate.extra_biases",
               "model.residual.gate.relu",
               "model.norm.position"},
              [&options] { return gate_problem(options); });
  declare_dropout(table, options);
  declare(table, options.attention, [&options](const std::string& kinds) {
    return layers_of_other_weights(kinds, options.layers, options.attention.global_projections);
  });
  table.add("model.tie_word_embeddings",
            options.tied_embeddings,
            "the output layer uses the table of the embedding",
            affects_weights());
  table.add(
      "model.initializer_range",
      options.initial_deviation,
      "standard deviation of the initial weights; none: that of matrices by their size (Glorot and "
      "Bengio 2010), that of embeddings model.hidden_size to the power of -1/2",
      at_least(0.0));
  table.check(attention_keys, [&options, traits] {
    return problem_of(options.attention, options.attention_setting(traits, 0));
  });
  if (!traits.has_cross_attention)
    table.warn("model.attention.dropout", [&options]() -> std::string {
      return has_probabilities(options.attention)
                 ? ""
                 : "no layer of model.attention.layer_types has probabilities to drop";
    });
  if (planned) check_beside(table, options, planned, traits);
  table.check({"model.residual.type", "model.norm.position"}, [&options]() -> std::string {
    if (options.residual != ResidualKind::reversible || options.norm == NormPosition::pre)
      return "";
    return "model.residual.type: found reversible with model.norm.position post, whose norm of the "
           "sum cannot be "
           "undone; set model.norm.position to pre";
  });
  table.check(
      {"model.residual.reversible_output", "model.residual.type", "model.tie_word_embeddings"},
      [&options]() -> std::string {
        if (options.reversible_output != StreamMerge::concatenate) return "";
        if (options.residual != ResidualKind::reversible)
          return "model.residual.reversible_output is for model.residual.type: reversible";
        if (!options.tied_embeddings) return "";
        return "model.residual.reversible_output: concat makes the output layer twice as wide "
               "as the embedding; set model.tie_word_embeddings to false";
      });
  if (traits.has_cross_attention)
    table.check({"model.use_parallel_residual"}, [&options]() -> std::string {
      if (options.sublayers == SublayerOrder::serial) return "";
      return "model.use_parallel_residual: found true in a family whose decoder looks at an "
             "encoder "
             "between "
             "the two; set it to false";
    });
  table.check({"model.attention.learned_sinks",
               "model.attention.logit_softcapping",
               "model.attention.scale_attn_weights",
               "model.attention.layer_types"},
              [&options] { return softmax_form_problem(options); });
  table.check(
      {"model.num_key_value_heads", "model.num_attention_heads", "model.attention.layer_types"},
      [&options] { return key_heads_problem(options, {}); });
  table.check({"model.attention.qk_norm", "model.norm.type"}, [&options]() -> std::string {
    if (!options.query_key_norm || options.norm_kind != NormKind::power) return "";
    return "model.attention.qk_norm is true with model.norm.type: powernorm, whose averages are of "
           "the "
           "features of a stream; set model.norm.type to layernorm or rmsnorm";
  });
  table.check({"model.hidden_size", "model.num_attention_heads", "model.head_dim"},
              [&options]() -> std::string {
                if (options.head_width || options.width % options.heads == 0) return "";
                return fmt::format(
                    "model.hidden_size is {}, which does not divide by model.num_attention_heads = "
                    "{}; set model.head_dim or "
                    "change one",
                    options.width,
                    options.heads);
              });
}

Activation nonlinearity(FeedForwardActivation activation) {
  switch (activation) {
    case FeedForwardActivation::relu:
    case FeedForwardActivation::reglu:
      return Activation::relu;
    case FeedForwardActivation::gelu:
    case FeedForwardActivation::geglu:
      return Activation::gelu;
    case FeedForwardActivation::gelu_tanh:
    case FeedForwardActivation::geglu_tanh:
      return Activation::gelu_tanh;
    case FeedForwardActivation::silu:
    case FeedForwardActivation::swiglu:
      return Activation::silu;
  }
  throw Failure("unknown activation of a feed-forward layer");
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
  for (const std::string name : {"dilation",
                                 "global_local.global_positions",
                                 "global_local.num_random_blocks",
                                 "global_local.block_size",
                                 "global_local.random_seed"})
    keys.push_back("model.attention." + name);
  for (const auto& [key, kinds] : kinds_by_key()) keys.push_back("model." + key);
  keys.push_back(traits.sequences == Sequences::segments ? "data.seq_length" : "data.max_length");
  for (const std::string key : {"parallel.context_parallel_size",
                                "parallel.tensor_parallel_size",
                                "precision.compute_dtype"})
    keys.push_back(key);
  return keys;
}

std::string attention_problem(const ModelOptions& options,
                              const ModelBuildOptions& setting,
                              const FamilyTraits& traits) {
  AttentionBuildOptions asked = options.attention_setting(traits, setting.segment);
  asked.compute = setting.compute;
  asked.documents = setting.documents_apart;
  if (heads_problem(options.heads, setting.mesh.shape).empty()) asked.mesh = setting.mesh.shape;
  return problem_of(options.attention, asked);
}

std::string recompute_problem(const ModelOptions& options, const MemoryOptions& memory) {
  const Recomputation again = memory.recomputation();
  if (options.residual == ResidualKind::reversible &&
      again.granularity != RecomputeGranularity::none)
    return fmt::format(
        "memory.recompute_granularity is {}, but model.residual.type: reversible computes every "
        "layer "
        "again anyway; set memory.recompute_granularity to none",
        name_of(memory.recompute_granularity));
  if (again.num_layers > options.layers)
    return fmt::format(
        "memory.recompute_num_layers is {}, but model.num_hidden_layers is {}; set it to at most "
        "that "
        "many",
        memory.recompute_num_layers,
        options.layers);
  return "";
}

std::string reconstruction_problem(const ModelOptions& options, const MemoryOptions& memory) {
  if (options.residual == ResidualKind::reversible || memory.reconstruction_check_every == 0)
    return "";
  return fmt::format(
      "memory.reconstruction_check_interval is {}, but only model.residual.type: reversible "
      "rebuilds "
      "anything; set it to 0",
      memory.reconstruction_check_every);
}

std::int64_t vocabulary_of(const ModelOptions& options, std::int64_t tokenizer_ids) {
  if (options.vocabulary && *options.vocabulary < tokenizer_ids)
    throw ConfigurationError(
        "model.vocab_size is {}, but the tokenizer has {} ids", *options.vocabulary, tokenizer_ids);
  return options.vocabulary.value_or(tokenizer_ids);
}

}  // namespace longspan
