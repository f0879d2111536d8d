#include <algorithm>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/interop/architecture.h"
#include "framework/interop/config_keys.h"

namespace longspan::t5 {
namespace {

constexpr std::int64_t most = std::int64_t{1} << 24;
constexpr const char* gated_beginning = "gated-";
constexpr const char* output = "lm_head.weight";
// Aliases of the shared embedding table.
constexpr const char* embeddings[] = {
    "shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"};

// "relu", or "gated-gelu", which uses the tanh approximation.
void read_feed_forward(const ModelConfig& config, ModelSettings& settings) {
  constexpr const char* key = "feed_forward_proj";
  const std::string written = config.has(key) ? config.text(key) : "relu";
  const bool is_gated = written.starts_with(gated_beginning);
  std::string name = is_gated ? written.substr(std::string(gated_beginning).size()) : written;
  if (is_gated && name == "gelu") name = "gelu_new";
  const std::string activation = from_hf_activation(config, key, name);
  // Derived values, also saved.
  config.require_flag("is_gated_act", is_gated, fmt::format("as in \"{}\"", key));
  if (config.has("dense_act_fn") && from_hf_activation(config, "dense_act_fn") != activation)
    config.throw_data_error(
        "dense_act_fn",
        fmt::format(
            "expected {}, as in \"{}\", found {}", name, key, quote(config.text("dense_act_fn"))));
  settings.emplace_back("model.activation", is_gated ? gated_activation(activation) : activation);
}

// Version 4 of `transformers` scales the input of the output layer if it is tied to the embedding.
// Version 5 has separate settings, and always saves the embedding as tied.
void read_output(const ModelConfig& config, ModelSettings& settings) {
  const bool is_tied = config.flag("tie_word_embeddings", true);
  const bool is_scaled = config.flag("scale_decoder_outputs", is_tied);
  settings.emplace_back("model.tie_word_embeddings", is_tied ? "true" : "false");
  settings.emplace_back("model.scale_decoder_outputs", is_scaled ? "true" : "false");
}

// A separate output table that is stored in addition to the embedding takes effect.
void settle(const TensorFinder& find, ImportedConfig& meaning) {
  const auto says = [&](const std::string& key, const char* value) {
    return std::ranges::count(meaning.settings, std::pair(key, std::string(value))) > 0;
  };
  const bool has_embedding =
      std::ranges::any_of(embeddings, [&](const char* name) { return find(name) != nullptr; });
  if (!says("model.tie_word_embeddings", "true") || !says("model.scale_decoder_outputs", "false") ||
      !has_embedding || find(output) == nullptr)
    return;
  for (auto& [key, value] : meaning.settings)
    if (key == "model.tie_word_embeddings") value = "false";
}

void read_dropout(const ModelConfig& config, ImportedConfig& meaning) {
  const std::string dropout = fmt::format("{}", config.number("dropout_rate", 0.1, of_dropout));
  meaning.settings.emplace_back("model.dropout", dropout);
  meaning.settings.emplace_back("model.attention.dropout", dropout);
  if (dropout != "0")
    meaning.remarks.push_back(
        "in training, model.dropout does not apply after the final norms; T5 applies it there");
}

ImportedConfig read(const ModelConfig& config) {
  config.pass_over_common();
  config.require_encoder_and_decoder();
  // Settings of a classification head and of initialization.
  config.ignore_keys({"classifier_dropout", "initializer_factor"});
  const std::int64_t width = config.integer("d_model", 1, most);
  const std::int64_t heads = config.integer("num_heads", 1, 1 << 16);
  const std::int64_t head_width = config.integer("d_kv", 1, 1 << 16);
  const std::int64_t vocabulary = config.integer("vocab_size", 1, std::int64_t{1} << 31);
  const std::int64_t layers = config.integer("num_layers", 1, 1 << 16);
  const auto integer_or = [&](const char* key, std::int64_t otherwise, std::int64_t highest) {
    return config.has(key) ? config.integer(key, 1, highest) : otherwise;
  };
  ImportedConfig meaning;
  add_pair_settings(layers, integer_or("num_decoder_layers", layers, 1 << 16), meaning.settings);
  const ModelSettings more = {
      {"model.vocab_size", fmt::format("{}", vocabulary)},
      {"model.hidden_size", fmt::format("{}", width)},
      {"model.num_attention_heads", fmt::format("{}", heads)},
      {"model.head_dim", head_width * heads == width ? "none" : fmt::format("{}", head_width)},
      {"model.intermediate_size", fmt::format("{}", config.integer("d_ff", 1, 1 << 28))},
      {"model.mlp_bias", "false"},
      {"model.attention.bias", "[]"},
      {"model.norm.position", "pre"},
      {"model.norm.type", "rmsnorm"},
      {"model.norm.eps", fmt::format("{}", config.number("layer_norm_epsilon", 1e-6, above_0))},
      {"model.position_embedding_type", "relative_bias"},
      {"model.relative_attention_num_buckets",
       fmt::format("{}", integer_or("relative_attention_num_buckets", 32, 1 << 20))},
      {"model.relative_attention_max_distance",
       fmt::format("{}", integer_or("relative_attention_max_distance", 128, 1 << 20))},
      {"model.attention.scale_attn_weights", "false"},
      {"model.scale_embedding", "false"},
      // The training length; relative positions are unbounded.
      {"data.max_length", fmt::format("{}", integer_or("n_positions", 512, 1 << 24))},
  };
  meaning.settings.insert(meaning.settings.end(), more.begin(), more.end());
  read_feed_forward(config, meaning.settings);
  read_output(config, meaning.settings);
  read_dropout(config, meaning);
  meaning.token_ids =
      read_token_ids(config,
                     vocabulary,
                     {{"pad_token_id", 0}, {"eos_token_id", 1}, {"decoder_start_token_id", 0}});
  note_generation_settings(config, meaning);
  config.finish();
  return meaning;
}

std::string hf_feed_forward(const ModelValues& values) {
  const std::string activation = to_hf_activation(values.text("model.activation"));
  if (!is_gated_activation(values.text("model.activation"))) return activation;
  return gated_beginning + (activation == "gelu_new" ? "gelu" : activation);
}

nlohmann::ordered_json write(const ModelValues& values) {
  if (!values.is("model.position_embedding_type", "relative_bias"))
    throw ConfigurationError("T5 requires model.position_embedding_type: relative_bias, found {}",
                             values.text("model.position_embedding_type"));
  const std::int64_t width = values.integer("model.hidden_size");
  const std::int64_t heads = values.integer("model.num_attention_heads");
  const bool is_tied = values.is("model.tie_word_embeddings", "true");
  const bool is_scaled = values.is("model.scale_decoder_outputs", "true");
  nlohmann::ordered_json config = {
      {"model_type", "t5"},
      {"is_encoder_decoder", true},
      {"vocab_size", values.integer("model.vocab_size")},
      {"d_model", width},
      {"d_kv", values.integer_or("model.head_dim", width / heads)},
      {"d_ff", values.integer_or("model.intermediate_size", 4 * width)},
      {"num_layers", encoder_layers_of(values)},
      {"num_decoder_layers", values.integer("model.num_hidden_layers")},
      {"num_heads", heads},
      {"relative_attention_num_buckets", values.integer("model.relative_attention_num_buckets")},
      {"relative_attention_max_distance", values.integer("model.relative_attention_max_distance")},
      {"dropout_rate", values.number_or("model.dropout", 0)},
      {"layer_norm_epsilon", values.number_or("model.norm.eps", 0)},
      {"initializer_factor", 1.0},
      {"feed_forward_proj", hf_feed_forward(values)},
      {"n_positions", values.integer_or("data.max_length", 512)},
      {"tie_word_embeddings", is_tied}};
  // Version 4 has no such key.
  if (is_scaled != is_tied) config["scale_decoder_outputs"] = is_scaled;
  return config;
}

// Adds a stack, "encoder" or "decoder".
void add_stack(const std::string& stack,
               std::int64_t layers,
               bool is_gated,
               std::vector<TensorPair>& pairs) {
  const auto add = [&](const std::string& there, const std::string& here) {
    pairs.push_back({there + ".weight", {here + "/weight"}});
  };
  const auto add_attention = [&](const std::string& there, const std::string& here) {
    for (const auto& [theirs, ours] :
         {std::pair("q", "query"), {"k", "key"}, {"v", "value"}, {"o", "out"}})
      add(there + theirs, here + ours);
  };
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    int sublayer = 0;
    const auto next = [&] {
      return fmt::format("{}.block.{}.layer.{}.", stack, layer, sublayer++);
    };
    const std::string here = fmt::format("{}/layers/{}/", stack, layer);
    std::string there = next();
    add_attention(there + "SelfAttention.", here + "attention/");
    // All layers share the bias of the first one.
    if (layer == 0)
      pairs.push_back({there + "SelfAttention.relative_attention_bias.weight",
                       {stack + "/relative_bias"},
                       Orientation::transposed});
    add(there + "layer_norm", here + "attention/norm");
    if (stack == "decoder") {
      there = next();
      add_attention(there + "EncDecAttention.", here + "cross_attention/");
      add(there + "layer_norm", here + "cross_attention/norm");
    }
    there = next();
    const std::string feed = here + "feed_forward/";
    add(there + "DenseReluDense." + (is_gated ? "wi_0" : "wi"), feed + "in");
    if (is_gated) add(there + "DenseReluDense.wi_1", feed + "up");
    add(there + "DenseReluDense.wo", feed + "out");
    add(there + "layer_norm", feed + "norm");
  }
  add(stack + ".final_layer_norm", stack + "/final_norm");
}

std::vector<TensorPair> tensors(const ModelValues& values) {
  const bool is_gated = is_gated_activation(values.text("model.activation"));
  std::vector<TensorPair> pairs = {{embeddings[0], {"embedding/weight"}}};
  add_stack("encoder", encoder_layers_of(values), is_gated, pairs);
  add_stack("decoder", values.integer("model.num_hidden_layers"), is_gated, pairs);
  if (values.is("model.tie_word_embeddings", "false")) pairs.push_back({output, {"output/weight"}});
  return pairs;
}

// Bias of cross-attention, saved in the first releases and never read.
bool is_constant(std::string_view name) {
  return name == "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";
}

std::vector<std::pair<std::string, std::string>> copies(const ModelValues& values) {
  std::vector<std::pair<std::string, std::string>> names = {{embeddings[1], embeddings[0]},
                                                            {embeddings[2], embeddings[0]}};
  if (values.is("model.tie_word_embeddings", "true")) names.emplace_back(output, embeddings[0]);
  return names;
}

}  // namespace

Architecture architecture() {
  return {.model_type = "t5",
          .name = "T5",
          .family = "encoder_decoder",
          .model_classes = {"T5ForConditionalGeneration", "T5Model"},
          .prefix = "",
          .read = read,
          .write = write,
          .tensors = tensors,
          .is_constant = is_constant,
          .copies = copies,
          .resolve = settle};
}

}  // namespace longspan::t5
