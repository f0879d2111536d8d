#include "models/model_options.h"

#include <algorithm>
#include <iterator>

#include "framework/nn/attention/attention.h"

namespace longspan {
namespace {

// Returns the keys of the attention of a stack that its own check reads.
std::vector<std::string> attention_keys(const OptionTable& table) {
  std::vector<std::string> keys = {
      "model.attention.layer_types", "model.num_hidden_layers", "model.num_attention_heads"};
  for (const std::string& key : table.keys_of("model.attention"))
    if (key != keys.front()) keys.push_back(key);
  return keys;
}

// Returns why grouped key heads are unsupported; empty if they are supported.
std::string validate_key_heads(const ModelOptions& options, const MeshShape& mesh) {
  if (!options.key_heads) return "";
  AttentionOptions attention = options.attention;
  std::ranges::copy(attention.encoder_kinds, std::back_inserter(attention.kinds));
  const bool shared =
      has_kind(attention, "lsh") || (has_kind(attention, "routing") && attention.routing.shared);
  if (shared && *options.key_heads != options.heads)
    return fmt::format(
        "model.num_key_value_heads: {} cannot be combined with model.attention.layer_types: {}, "
        "whose queries and keys share a projection; omit it",
        *options.key_heads,
        has_kind(attention, "lsh") ? "lsh" : "routing with model.attention.routing.share_qk");
  return longspan::validate_key_heads(*options.key_heads, options.heads, mesh);
}

// Returns why the tokenizer's ids exceed the vocabulary; empty if they do not.
std::string validate_vocabulary(const ModelOptions& options, std::int64_t tokenizer_ids) {
  if (options.vocabulary.value_or(tokenizer_ids) >= tokenizer_ids) return "";
  return fmt::format("model.vocab_size: expected at least the {} ids of the tokenizer, found {}",
                     tokenizer_ids,
                     *options.vocabulary);
}

// Checks the options against those of other sections.
void check_combinations(OptionTable& table,
                        const ModelOptions& options,
                        const PlannedBuildOptions& planned,
                        const FamilyTraits& traits) {
  table.check(attention_keys_and_common(table, traits),
              [&options, planned, traits]() -> std::string {
                const bool is_reported =
                    !problem_of(options.attention, options.attention_setting(traits, 0)).empty();
                return is_reported ? "" : validate_attention(options, planned(), traits);
              });
  table.check({"model.num_attention_heads", "parallel.tensor_parallel_size"},
              [&options, planned] { return validate_heads(options.heads, planned().mesh.shape); });
  table.check({"model.num_key_value_heads", "parallel.tensor_parallel_size"},
              [&options, planned]() -> std::string {
                const MeshShape& mesh = planned().mesh.shape;
                const bool told = !validate_key_heads(options, {}).empty() ||
                                  !validate_heads(options.heads, mesh).empty();
                return told ? "" : validate_key_heads(options, mesh);
              });
  table.check({"memory.recompute_granularity",
               "memory.recompute_num_layers",
               "model.residual.type",
               "model.num_hidden_layers"},
              [&options, planned] { return validate_recompute(options, planned().memory); });
  table.check(
      {"memory.bptt_chunk_length", "model.attention.layer_types", length_key(traits.sequences)},
      [&options, planned, traits] {
        return validate_bptt_chunks(options, planned().memory, planned().segment, traits.sequences);
      });
  table.check({"model.vocab_size",
               "data.tokenizer.vocab_size",
               "data.tokenizer.type",
               "data.tokenizer.model_type",
               "run.task"},
              [&options, planned] { return validate_vocabulary(options, planned().vocabulary); });
}

void declare_sizes(OptionTable& table, ModelOptions& options) {
  table.add("model.vocab_size",
            options.vocabulary,
            "vocabulary size of the embedding and the output layer; none: that of the tokenizer",
            between(1, std::int64_t{1} << 31),
            affects_weights());
  table.add("model.num_hidden_layers",
            options.layers,
            "number of layers",
            between(1, 1 << 16),
            affects_weights());
  table.add("model.hidden_size",
            options.width,
            "hidden size, the width of the residual stream",
            between(1, 1 << 24),
            affects_weights());
  table.add("model.num_attention_heads",
            options.heads,
            "number of attention heads",
            between(1, 1 << 16),
            affects_weights());
  table.add("model.head_dim",
            options.head_width,
            "dimension of an attention head; none: model.hidden_size / model.num_attention_heads",
            between(1, 1 << 16),
            affects_weights());
  table.add("model.num_key_value_heads",
            options.key_heads,
            "number of key and value heads, each shared by a group of consecutive query heads "
            "(GQA, Ainslie et al. 2023), 1 for all (MQA, Shazeer 2019); none: "
            "model.num_attention_heads",
            between(1, 1 << 16),
            affects_weights());
  table.add(
      "model.attention.qk_norm",
      options.query_key_norm,
      "normalization of queries and keys by model.norm.type over the features of each head (Henry "
      "et al. 2020)",
      affects_weights(),
      excludes(is("model.norm.type", {"powernorm"})));
  table.add("model.attention.output_gate",
            options.output_gate,
            "gate of the self-attention output: its product with sigmoid(W x) of the layer's input "
            "x, before the output projection; gated linear recurrences have gates of their own "
            "(Qiu et al. "
            "2025)",
            affects_weights());
  declare_scores(table, options);
  table.add("model.attention.bias",
            options.attention_bias,
            "attention projections that have a bias: query, key, value and out; []: none",
            one_of({"query", "key", "value", "out"}),
            affects_weights());
  table.add("model.intermediate_size",
            options.feed_forward,
            "hidden size of the feed-forward layers; 0: layers have none (Mamba-2, gMLP); none: 4 "
            "model.hidden_size, or with a gated model.activation 8/3 of it, rounded up to a "
            "multiple of 8",
            between(0, 1 << 28),
            affects_weights());
  table.add("model.mlp_bias",
            options.feed_forward_bias,
            "biases of the feed-forward layers",
            affects_weights());
  table.add(
      "model.activation",
      options.activation,
      "activation f of the feed-forward layers W2 f(W1 x): relu, gelu, gelu_tanh, silu or relu2 "
      "(the square of relu, So et al. 2021); or of gated ones W2 (f(W1 x) * W3 x) (Shazeer 2020): "
      "reglu (relu), geglu (gelu), geglu_tanh "
      "(gelu_tanh) or swiglu (silu)",
      {{"relu", FeedForwardActivation::relu},
       {"gelu", FeedForwardActivation::gelu},
       {"gelu_tanh", FeedForwardActivation::gelu_tanh},
       {"silu", FeedForwardActivation::silu},
       {"relu2", FeedForwardActivation::relu2},
       {"reglu", FeedForwardActivation::reglu},
       {"geglu", FeedForwardActivation::geglu},
       {"geglu_tanh", FeedForwardActivation::geglu_tanh},
       {"swiglu", FeedForwardActivation::swiglu}},
      affects_weights());
}

void declare_stream(OptionTable& table, ModelOptions& options) {
  table.add(
      "model.use_parallel_residual",
      options.use_parallel_residual,
      "attention and feed-forward sublayers in parallel, on the same norm (GPT-J, PaLM); false: "
      "one after the other",
      affects_weights());
  table.add("model.norm.position",
            options.norm,
            "position of the norms: post (after the residual sum) or pre (before each sublayer)",
            {{"post", NormPosition::post}, {"pre", NormPosition::pre}},
            affects_weights());
  table.add(
      "model.norm.type",
      options.norm_kind,
      "normalization: layernorm (Ba et al. 2016), rmsnorm (no bias, Zhang and Sennrich 2019) or "
      "powernorm (running root mean square of each feature over all tokens, Shen et al. 2020)",
      {{"layernorm", NormKind::layer}, {"rmsnorm", NormKind::rms}, {"powernorm", NormKind::power}},
      affects_weights());
  table.add("model.norm.eps",
            options.norm_epsilon,
            "epsilon added to the variance or the mean square",
            more_than(0.0),
            affects_weights());
  table.add("model.norm.zero_centered",
            options.zero_centered_gains,
            "gains stored as their difference from 1, as in Gemma and Qwen3-Next; false: as they "
            "are",
            affects_weights());
  table.add("model.norm.power_alpha",
            options.power.decay,
            "decay of the running averages",
            at_least(0.0),
            less_than(1.0),
            only_with(is("model.norm.type", {"powernorm"})));
  table.add("model.norm.power_warmup_steps",
            options.power.warmup,
            "number of first training steps that use the mean square of the batch, or of the "
            "micro-batch with training.gradient_accumulation_steps, and its exact gradient",
            at_least(0),
            only_with(is("model.norm.type", {"powernorm"})));
  table.add("model.norm.final",
            options.final_norm,
            "norm after the last layer; none: true with model.norm.position: pre",
            affects_weights());
  table.add("model.residual.type",
            options.residual,
            "residual connection: standard, reversible (two streams, reconstructed in the "
            "backward pass, Kitaev et al. 2020) or gated (Parisotto et al. 2019)",
            {{"standard", ResidualKind::plain},
             {"reversible", ResidualKind::reversible},
             {"gated", ResidualKind::gated}},
            affects_weights(),
            value_needs("gated", is("model.norm.position", {"pre"})),
            value_needs("reversible", is("model.norm.position", {"pre"})));
  table.add("model.residual.reversible_output",
            options.reversible_output,
            "reduction of the two streams to the output: mean, or concat, which doubles the width "
            "of the output layer",
            {{"mean", StreamMerge::mean}, {"concat", StreamMerge::concatenate}},
            affects_weights(),
            needs(is("model.residual.type", {"reversible"})),
            value_excludes("concat", is("model.tie_word_embeddings", {"true"})));
}

void declare_gate(OptionTable& table, GateOptions& gate) {
  table.add(
      "model.residual.gate.type",
      gate.kind,
      "gate of the stream x and a sublayer's output y, with the logistic function s: sum, x + y; "
      "input, s(W x) x + y; output, x + s(W x - b) y; highway, s(W x + b) x + (1 - s(W x + b)) y; "
      "sigtanh, x + s(W y - b) tanh(U y); gru, (1 - z) x + z h of a GRU with input y",
      {{"gru", GateKind::gru},
       {"highway", GateKind::highway},
       {"input", GateKind::input},
       {"output", GateKind::output},
       {"sigtanh", GateKind::sigtanh},
       {"sum", GateKind::sum}},
      affects_weights(),
      needs(is("model.residual.type", {"gated"})));
  table.add("model.residual.gate.bias_init",
            gate.bias,
            "initial value of the gate biases b, larger values closer to the identity; none: 2 for "
            "gru, otherwise 1",
            between(-100.0, 100.0),
            needs(is("model.residual.type", {"gated"})),
            needs(is("model.residual.gate.type", {"gru", "highway", "output", "sigtanh"})));
  table.add("model.residual.gate.extra_biases",
            gate.biases,
            "biases of the reset gate and the candidate, which the paper does not have",
            affects_weights(),
            needs(is("model.residual.type", {"gated"})),
            needs(is("model.residual.gate.type", {"gru", "sigtanh"})));
  table.add("model.residual.gate.relu",
            gate.relu,
            "ReLU on a sublayer's output before its gate",
            needs(is("model.residual.type", {"gated"})));
}

void declare_dropout(OptionTable& table, ModelOptions& options) {
  table.add("model.dropout",
            options.dropout,
            "dropout probability of embeddings, positions, sublayer outputs and feed-forward "
            "hidden layers",
            at_least(0.0),
            less_than(1.0));
  table.add("model.attention.dropout",
            options.attention_dropout,
            "dropout probability of the attention weights",
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
  declare_dropout(table, options);
  declare(table, options.attention, [&options](const std::string& kinds) {
    return layers_of_other_weights(kinds, options.layers, options.attention.global_projections);
  });
  table.add("model.tie_word_embeddings",
            options.tied_embeddings,
            "weight of the embedding shared with the output layer",
            affects_weights());
  table.add(
      "model.initializer_range",
      options.initial_deviation,
      "standard deviation of the initial weights; none: Xavier initialization of matrices (Glorot "
      "and Bengio 2010), 1 / sqrt(model.hidden_size) for embeddings",
      at_least(0.0));
  table.check(attention_keys(table), [&options, traits] {
    return problem_of(options.attention, options.attention_setting(traits, 0));
  });
  if (!traits.has_cross_attention)
    table.warn("model.attention.dropout", [&options]() -> std::string {
      return has_probabilities(options.attention)
                 ? ""
                 : "no layer of model.attention.layer_types has attention probabilities";
    });
  if (planned) check_combinations(table, options, planned, traits);
  if (traits.has_cross_attention)
    table.check({"model.use_parallel_residual"}, [&options]() -> std::string {
      if (!options.use_parallel_residual) return "";
      return "model.use_parallel_residual cannot be combined with cross-attention; set it to false";
    });
  table.check({"model.intermediate_size", "model.residual.type", "model.use_parallel_residual"},
              [&options] { return validate_feed_forward(options); });
  table.check({"model.attention.learned_sinks",
               "model.attention.logit_softcapping",
               "model.attention.scale_attn_weights",
               "model.attention.layer_types"},
              [&options] { return validate_softmax_type(options); });
  table.check(
      {"model.num_key_value_heads", "model.num_attention_heads", "model.attention.layer_types"},
      [&options] { return validate_key_heads(options, {}); });
  table.check({"model.hidden_size", "model.num_attention_heads", "model.head_dim"},
              [&options]() -> std::string {
                if (options.head_width || options.width % options.heads == 0) return "";
                return fmt::format(
                    "model.hidden_size: expected a multiple of model.num_attention_heads = {}, "
                    "found {}; set model.head_dim or change one of them",
                    options.heads,
                    options.width);
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
    case FeedForwardActivation::relu2:
      return Activation::relu2;
  }
  throw Failure("unknown activation of the feed-forward layers");
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

std::vector<std::string> attention_keys_and_common(const OptionTable& table,
                                                   const FamilyTraits& traits) {
  std::vector<std::string> keys = attention_keys(table);
  keys.push_back(length_key(traits.sequences));
  for (const std::string key : {"parallel.context_parallel_size",
                                "parallel.tensor_parallel_size",
                                "precision.compute_dtype"})
    keys.push_back(key);
  return keys;
}

std::string validate_attention(const ModelOptions& options,
                               const ModelBuildOptions& setting,
                               const FamilyTraits& traits) {
  AttentionBuildOptions asked = options.attention_setting(traits, setting.segment);
  asked.compute = setting.compute;
  asked.documents = setting.documents_apart;
  if (validate_heads(options.heads, setting.mesh.shape).empty()) asked.mesh = setting.mesh.shape;
  return problem_of(options.attention, asked);
}

std::string validate_bptt_chunks(const ModelOptions& options,
                                 const MemoryOptions& memory,
                                 std::int64_t segment,
                                 Sequences sequences) {
  if (!memory.bptt_chunk_length) return "";
  if (const std::string type = whole_sequence_type(options.attention); !type.empty())
    return fmt::format(
        "memory.bptt_chunk_length: {} cannot be combined with {}, which requires the whole "
        "sequence; use a type that reads earlier positions only, such as full, sliding_window or "
        "linear, or omit memory.bptt_chunk_length",
        *memory.bptt_chunk_length,
        type);
  if (segment > 0 && *memory.bptt_chunk_length > segment)
    return fmt::format("memory.bptt_chunk_length: expected at most {}, found {}",
                       sequences == Sequences::segments
                           ? fmt::format("data.seq_length = {}", segment)
                           : fmt::format("{} (the longest example)", segment),
                       *memory.bptt_chunk_length);
  return "";
}

std::string whole_sequence_type(const AttentionOptions& options) {
  const AttentionKind* const kind = first_kind_without_kv_cache(options);
  return kind ? "model.attention.layer_types: " + kind->name : "";
}

std::string validate_recompute(const ModelOptions& options, const MemoryOptions& memory) {
  const Recomputation again = memory.recomputation();
  if (options.residual == ResidualKind::reversible &&
      again.granularity != RecomputeGranularity::none)
    return fmt::format(
        "memory.recompute_granularity: {} cannot be combined with "
        "model.residual.type: reversible; set it to none",
        name_of(memory.recompute_granularity));
  if (again.num_layers > options.layers)
    return fmt::format(
        "memory.recompute_num_layers: expected at most model.num_hidden_layers = {}, found {}",
        options.layers,
        memory.recompute_num_layers);
  return "";
}

std::string validate_feed_forward(const ModelOptions& options) {
  if (options.has_feed_forward()) return "";
  const char* const other = options.residual == ResidualKind::reversible
                                ? "model.residual.type: reversible"
                            : options.use_parallel_residual ? "model.use_parallel_residual"
                                                            : nullptr;
  return other == nullptr ? ""
                          : fmt::format(
                                "model.intermediate_size: 0 cannot be combined with {}, "
                                "which requires feed-forward layers",
                                other);
}

std::string validate_reconstruction(const ModelOptions& options, const MemoryOptions& memory) {
  if (options.residual == ResidualKind::reversible || memory.reconstruction_check_every == 0)
    return "";
  return fmt::format(
      "memory.reconstruction_check_interval: {} requires model.residual.type: "
      "reversible; set it to 0",
      memory.reconstruction_check_every);
}

std::int64_t vocabulary_of(const ModelOptions& options, std::int64_t tokenizer_ids) {
  throw_if_error(validate_vocabulary(options, tokenizer_ids));
  return options.vocabulary.value_or(tokenizer_ids);
}

}  // namespace longspan
