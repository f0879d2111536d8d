#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "framework/interop/architecture.h"
#include "framework/interop/config_keys.h"
#include "framework/interop/hybrid_layers.h"

namespace longspan::llama {
namespace {

constexpr std::int64_t most = std::int64_t{1} << 24;
// Segment length for models with a longer context.
constexpr std::int64_t max_first_segment_length = 2048;

// Attention projections with biases.
enum class AttentionBias : std::uint8_t {
  none,
  inputs,  // queries, keys and values
  by_key   // "attention_bias": all or none
};

// Differences between the architectures, and defaults of keys absent from config.json.
struct LlamaKind {
  const char* model_type;
  const char* name;
  const char* model_class;  // prefix of "architectures"
  AttentionBias bias = AttentionBias::none;
  bool feed_forward_bias = false;  // whether "mlp_bias" is read
  bool query_key_norm = false;
  // Layers of framework/interop/hybrid_layers.h, RoPE of a quarter of a head, and gains of 1 +
  // weight.
  bool hybrid = false;
  bool heads_divide = false;  // required by `transformers`, even with another "head_dim"
  WindowKeys windows = WindowKeys::none;
  std::int64_t window = 0;      // default of "sliding_window"
  std::int64_t key_heads = 0;   // default of "num_key_value_heads"; 0: as many as query heads
  std::int64_t head_width = 0;  // default of "head_dim"; 0: "hidden_size" / "num_attention_heads"
};
constexpr LlamaKind kinds[] = {{.model_type = "llama",
                                .name = "Llama",
                                .model_class = "Llama",
                                .bias = AttentionBias::by_key,
                                .feed_forward_bias = true,
                                .heads_divide = true},
                               {.model_type = "mistral",
                                .name = "Mistral",
                                .model_class = "Mistral",
                                .windows = WindowKeys::window,
                                .window = 4096,
                                .key_heads = 8},
                               {.model_type = "qwen2",
                                .name = "Qwen 2",
                                .model_class = "Qwen2",
                                .bias = AttentionBias::inputs,
                                .windows = WindowKeys::by_layer,
                                .window = 4096,
                                .key_heads = 32},
                               {.model_type = "qwen3",
                                .name = "Qwen 3",
                                .model_class = "Qwen3",
                                .bias = AttentionBias::by_key,
                                .query_key_norm = true,
                                .windows = WindowKeys::by_layer,
                                .window = 4096,
                                .key_heads = 32,
                                .head_width = 128},
                               {.model_type = "qwen3_5_text",
                                .name = "Qwen 3.5",
                                .model_class = "Qwen3_5",
                                .query_key_norm = true,
                                .hybrid = true,
                                .key_heads = 4,
                                .head_width = 256}};
constexpr const LlamaKind& hybrid_kind = kinds[std::size(kinds) - 1];
static_assert(hybrid_kind.hybrid);
constexpr double hybrid_rotary_share = 0.25;

// Reads the attention heads. Defaults are omitted, as in an export.
void read_heads(const LlamaKind& kind,
                const ModelConfig& config,
                std::int64_t width,
                ModelSettings& settings) {
  const std::int64_t heads = config.integer("num_attention_heads", 1, 1 << 16);
  // Null means as many as query heads.
  const bool unsaid = kind.key_heads != 0 && !config.is_present("num_key_value_heads");
  std::int64_t key_heads = unsaid ? kind.key_heads : heads;
  if (config.has("num_key_value_heads"))
    key_heads = config.integer("num_key_value_heads", 1, 1 << 16);
  if (heads % key_heads != 0)
    config.throw_data_error(
        "num_key_value_heads",
        fmt::format("expected a divisor of num_attention_heads ({}), found {}", heads, key_heads));
  std::int64_t dim = kind.head_width;
  if (config.has("head_dim")) dim = config.integer("head_dim", 1, 1 << 16);
  if ((dim == 0 || kind.heads_divide) && width % heads != 0)
    config.throw_data_error("num_attention_heads",
                            fmt::format("expected a divisor of hidden_size ({}), found {}{}",
                                        width,
                                        heads,
                                        kind.heads_divide ? "" : "; set head_dim"));
  if (dim == 0) dim = width / heads;
  settings.emplace_back("model.num_attention_heads", fmt::format("{}", heads));
  if (key_heads != heads)
    settings.emplace_back("model.num_key_value_heads", fmt::format("{}", key_heads));
  if (dim * heads != width) settings.emplace_back("model.head_dim", fmt::format("{}", dim));
}

void read_biases(const LlamaKind& kind, const ModelConfig& config, ModelSettings& settings) {
  bool inputs = kind.bias == AttentionBias::inputs, out = false;
  if (kind.bias == AttentionBias::by_key) inputs = out = config.flag("attention_bias", false);
  std::vector<std::string> biases;
  if (inputs) biases = {"query", "key", "value"};
  if (out) biases.emplace_back("out");
  settings.emplace_back("model.attention.bias", fmt::format("[{}]", fmt::join(biases, ", ")));
  const bool feed_forward = kind.feed_forward_bias && config.flag("mlp_bias", false);
  settings.emplace_back("model.mlp_bias", feed_forward ? "true" : "false");
}

ImportedConfig read(const LlamaKind& kind, const ModelConfig& config) {
  config.pass_over_common();
  config.require_decoder_alone();
  // Partitioned matrix products with an equal sum, provenance, and a key that older versions wrote
  // in addition to "max_position_embeddings".
  config.ignore_keys({"pretraining_tp", "is_llama_config", "max_sequence_length"});
  config.require_flag("use_mrope", false, "positions are one-dimensional");
  config.require_flag("rope_interleaved", false, "the two halves of a head are rotated");
  const std::int64_t width = config.integer("hidden_size", 1, most);
  const std::int64_t layers = config.integer("num_hidden_layers", 1, 1 << 16);
  const std::int64_t positions = config.integer("max_position_embeddings", 2, max_positions);
  const std::int64_t segment = std::min(positions, max_first_segment_length);
  ImportedConfig meaning;
  ModelSettings& settings = meaning.settings;
  settings = {
      {"model.family", "decoder"},
      {"model.vocab_size",
       fmt::format("{}", config.integer("vocab_size", 1, std::int64_t{1} << 31))},
      {"model.num_hidden_layers", fmt::format("{}", layers)},
      {"model.hidden_size", fmt::format("{}", width)},
      {"model.intermediate_size",
       fmt::format("{}", config.integer("intermediate_size", 1, 1 << 28))},
      {"model.activation",
       gated_activation(config.has("hidden_act") ? from_hf_activation(config, "hidden_act")
                                                 : "silu")},
      {"model.norm.position", "pre"},
      {"model.norm.type", "rmsnorm"},
      {"model.norm.eps", fmt::format("{}", config.number("rms_norm_eps", 1e-6, above_0))},
      {"model.max_position_embeddings", fmt::format("{}", positions)},
      {"model.tie_word_embeddings", config.flag("tie_word_embeddings", false) ? "true" : "false"},
      {"model.dropout", "0"},
      {"model.attention.dropout",
       fmt::format("{}", config.number("attention_dropout", 0, of_dropout))},
      {"model.initializer_range",
       fmt::format("{}", config.number("initializer_range", 0.02, from_0))},
      {"data.seq_length", fmt::format("{}", segment)},
      {"data.global_batch_size", "1"},
  };
  if (kind.query_key_norm) settings.emplace_back("model.attention.qk_norm", "true");
  read_heads(kind, config, width, settings);
  read_biases(kind, config, settings);
  read_rope(
      config, positions, settings, kind.hybrid ? std::optional(hybrid_rotary_share) : std::nullopt);
  if (kind.hybrid) read_hybrid_layers(config, layers, settings);
  read_windows(config, kind.windows, layers, kind.window, settings);
  if (segment < positions)
    meaning.remarks.push_back(fmt::format(
        "data.seq_length is {} (\"max_position_embeddings\" allows {})", segment, positions));
  config.finish();
  return meaning;
}

bool has_bias(const ModelValues& values, const std::string& projection) {
  return std::ranges::count(values.texts("model.attention.bias"), projection) > 0;
}

bool is_tied(const ModelValues& values) { return values.is("model.tie_word_embeddings", "true"); }

nlohmann::ordered_json write(const LlamaKind& kind, const ModelValues& values) {
  const std::int64_t width = values.integer("model.hidden_size");
  const std::int64_t heads = values.integer("model.num_attention_heads");
  nlohmann::ordered_json config = {
      {"model_type", kind.model_type},
      {"vocab_size", values.integer("model.vocab_size")},
      {"hidden_size", width},
      {"intermediate_size", values.integer_or("model.intermediate_size", 0)},
      {"num_hidden_layers", values.integer("model.num_hidden_layers")},
      {"num_attention_heads", heads},
      {"num_key_value_heads", values.integer_or("model.num_key_value_heads", heads)},
      {"head_dim", values.integer_or("model.head_dim", width / heads)},
      {"hidden_act", to_hf_activation(values.text("model.activation"))},
      {"rms_norm_eps", values.number_or("model.norm.eps", 0)},
      {"attention_dropout", values.number_or("model.attention.dropout", 0)},
      {"initializer_range", values.number_or("model.initializer_range", 0.02)},
      {"tie_word_embeddings", is_tied(values)},
      {"bos_token_id", nullptr},
      {"eos_token_id", nullptr}};
  if (kind.bias == AttentionBias::by_key) config["attention_bias"] = has_bias(values, "query");
  if (kind.feed_forward_bias) config["mlp_bias"] = values.is("model.mlp_bias", "true");
  if (kind.hybrid) {
    write_rope_parameters(values, config);
    write_hybrid_layers(values, config);
    return config;
  }
  write_rope(values, config);
  write_windows(values, kind.windows, config);
  return config;
}

std::vector<TensorPair> tensors(const LlamaKind& kind, const ModelValues& values) {
  std::vector<TensorPair> pairs = {{"model.embed_tokens.weight", {"embedding/weight"}}};
  const auto add = [&](const std::string& there, const std::string& here, bool bias = false) {
    pairs.push_back({there + ".weight", {here + "/weight"}});
    if (bias) pairs.push_back({there + ".bias", {here + "/bias"}});
  };
  const bool feed_bias = values.is("model.mlp_bias", "true");
  for (std::int64_t layer = 0; layer < values.integer("model.num_hidden_layers"); ++layer) {
    const std::string there = fmt::format("model.layers.{}.", layer);
    const std::string attention = fmt::format("layers/{}/attention/", layer);
    const std::string feed = fmt::format("layers/{}/feed_forward/", layer);
    add(there + "input_layernorm", attention + "norm");
    if (kind.hybrid && is_linear_layer(values, layer)) {
      add_linear_attention(values, there, attention, pairs);
    } else {
      add(there + "self_attn.q_proj", attention + "query", has_bias(values, "query"));
      if (kind.hybrid) {
        pairs.back().longspan_names.push_back(attention + "output_gate/weight");
        pairs.back().groups = values.integer("model.num_attention_heads");
      }
      add(there + "self_attn.k_proj", attention + "key", has_bias(values, "key"));
      add(there + "self_attn.v_proj", attention + "value", has_bias(values, "value"));
      add(there + "self_attn.o_proj", attention + "out", has_bias(values, "out"));
      if (values.is("model.attention.qk_norm", "true")) {
        add(there + "self_attn.q_norm", attention + "query_norm");
        add(there + "self_attn.k_norm", attention + "key_norm");
      }
    }
    add(there + "post_attention_layernorm", feed + "norm");
    add(there + "mlp.gate_proj", feed + "in", feed_bias);
    add(there + "mlp.up_proj", feed + "up", feed_bias);
    add(there + "mlp.down_proj", feed + "out", feed_bias);
  }
  add("model.norm", "final_norm");
  if (!is_tied(values)) add("lm_head", "output");
  return pairs;
}

// RoPE frequencies, saved by older versions.
bool is_constant(std::string_view name) { return name.ends_with("rotary_emb.inv_freq"); }

std::vector<std::pair<std::string, std::string>> copies(const ModelValues& values) {
  if (!is_tied(values)) return {};
  return {{"lm_head.weight", "model.embed_tokens.weight"}};
}

// Reads the text part of a model of texts and images.
ImportedConfig read_text_part(const ModelConfig& config) {
  config.pass_over_common();
  config.ignore_keys({"vision_config",
                      "image_token_id",
                      "video_token_id",
                      "vision_start_token_id",
                      "vision_end_token_id",
                      "language_model_only"});
  const bool is_tied = config.flag("tie_word_embeddings", false);
  ImportedConfig meaning = read(hybrid_kind, config.section("text_config"));
  config.finish();
  // Both parts of the file may have the key.
  if (is_tied)
    for (auto& [key, value] : meaning.settings)
      if (key == "model.tie_word_embeddings") value = "true";
  return meaning;
}

// A tied model may store the output layer, but one without it is tied.
void resolve_text_part(const TensorFinder& find, ImportedConfig& meaning) {
  for (auto& [key, value] : meaning.settings)
    if (key == "model.tie_word_embeddings" && find("lm_head.weight") == nullptr) value = "true";
}

// Name in a model of texts and images.
std::string text_part_name(const std::string& name) {
  const std::string prefix = "model.";
  if (!name.starts_with(prefix)) return "language_model." + name;
  return "model.language_model." + name.substr(prefix.size());
}

// The image encoder, and layers that predict later tokens.
bool is_beside_text_part(std::string_view name) {
  return name.starts_with("model.visual.") || name.starts_with("visual.") ||
         name.starts_with("mtp.");
}

}  // namespace

std::vector<Architecture> architectures() {
  std::vector<Architecture> all;
  for (const LlamaKind& kind : kinds) {
    const std::string model_class = kind.model_class;
    const std::string backbone = kind.hybrid ? "TextModel" : "Model";
    all.push_back({.model_type = kind.model_type,
                   .name = kind.name,
                   .family = "decoder",
                   .model_classes = {model_class + "ForCausalLM", model_class + backbone},
                   .prefix = "model.",
                   .read = [&kind](const ModelConfig& config) { return read(kind, config); },
                   .write = [&kind](const ModelValues& values) { return write(kind, values); },
                   .tensors = [&kind](const ModelValues& values) { return tensors(kind, values); },
                   .is_constant = is_constant,
                   .copies = copies});
  }
  Architecture text_part = all.back();
  text_part.model_type = "qwen3_5";
  text_part.model_classes = {"Qwen3_5ForConditionalGeneration", "Qwen3_5Model"};
  text_part.read = read_text_part;
  text_part.resolve = resolve_text_part;
  text_part.is_import_only = true;
  all.push_back(std::move(text_part));
  // Files of either type may have the names and tensors of the other.
  for (Architecture& each : all) {
    if (each.name != std::string(hybrid_kind.name)) continue;
    each.legacy_name = text_part_name;
    each.is_unsupported_tensor = is_beside_text_part;
  }
  return all;
}

}  // namespace longspan::llama
