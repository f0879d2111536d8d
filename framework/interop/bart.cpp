#include "framework/interop/architecture.h"
#include "framework/interop/config_keys.h"

namespace longspan::bart {
namespace {

constexpr std::int64_t most = std::int64_t{1} << 24;
// Unused first rows of both position tables.
constexpr std::int64_t first_position = 2;

// Rejects settings of versions before 4 that change the model's function.
void check_functions(const ModelConfig& config) {
  config.require_encoder_and_decoder();
  config.require_flag("tie_word_embeddings", true, "source, target and output share one embedding");
  config.require_flag("normalize_embedding", true, "embeddings are normalized");
  config.require_flag("normalize_before", false, "norms follow the sublayers");
  config.require_flag("add_final_layer_norm", false, "there is no final norm");
  config.require_flag("static_position_embeddings", false, "position embeddings are learned");
  config.require_flag("do_blenderbot_90_layernorm", false, "norms follow the sublayers");
  config.require_flag("add_bias_logits", false, "logits have no bias");
  if (config.has("extra_pos_embeddings"))
    config.integer("extra_pos_embeddings", first_position, first_position);
}

// Returns a number that must be equal in encoder and decoder.
std::int64_t equal(const ModelConfig& config, const std::string& name, std::int64_t min_below) {
  const std::string encoder = "encoder_" + name, decoder = "decoder_" + name;
  const std::int64_t count = config.integer(encoder, 1, min_below);
  if (const std::int64_t other = config.integer(decoder, 1, min_below); other != count)
    config.throw_data_error(
        decoder,
        fmt::format("expected {}, as in \"{}\", found {} (encoder and decoder differ only in their "
                    "number of layers)",
                    count,
                    encoder,
                    other));
  return count;
}

void read_dropouts(const ModelConfig& config, ImportedConfig& meaning) {
  const double dropout = config.number("dropout", 0.1, of_dropout);
  const double hidden = config.number("activation_dropout", 0, of_dropout);
  meaning.settings.emplace_back("model.dropout", fmt::format("{}", dropout));
  meaning.settings.emplace_back(
      "model.attention.dropout",
      fmt::format("{}", config.number("attention_dropout", 0, of_dropout)));
  if (hidden != dropout)
    meaning.remarks.push_back(
        fmt::format("\"activation_dropout\" is {}, but \"dropout\" is {}: in training, "
                    "model.dropout uses the latter inside feed-forward layers too",
                    hidden,
                    dropout));
  for (const char* const key : {"encoder_layerdrop", "decoder_layerdrop"})
    if (const double share = config.number(key, 0, of_dropout); share > 0)
      meaning.remarks.push_back(
          fmt::format("\"{}\" is {}: LayerDrop is not applied in training", key, share));
}

void read_ids(const ModelConfig& config, std::int64_t vocabulary, ImportedConfig& meaning) {
  meaning.token_ids = read_token_ids(config,
                                     vocabulary,
                                     {{"bos_token_id", 0},
                                      {"pad_token_id", 1},
                                      {"eos_token_id", 2},
                                      {"decoder_start_token_id", 2},
                                      {"forced_eos_token_id", 2}});
  // Name of version 3.
  const bool forces_begin = config.flag("force_bos_token_to_be_generated", false);
  const auto begin = meaning.token_ids.find("bos_token_id");
  if (forces_begin && begin != meaning.token_ids.end())
    meaning.token_ids.emplace("forced_bos_token_id", begin->second);
}

ImportedConfig read(const ModelConfig& config) {
  config.pass_over_common();
  check_functions(config);
  // Settings of classification heads, and redundant keys.
  config.ignore_keys({"classifier_dropout", "classif_dropout", "num_hidden_layers"});
  // Written by distillation.
  config.ignore_keys(
      {"save_step", "replacing_rate", "student_encoder_layers", "student_decoder_layers"});
  const std::int64_t width = config.integer("d_model", 1, most);
  const std::int64_t heads = equal(config, "attention_heads", 1 << 16);
  if (width % heads != 0)
    config.throw_data_error(
        "encoder_attention_heads",
        fmt::format("expected a divisor of d_model ({}), found {}", width, heads));
  const std::int64_t vocabulary = config.integer("vocab_size", 1, std::int64_t{1} << 31);
  const std::int64_t positions = config.integer("max_position_embeddings", 2, 1 << 28);
  ImportedConfig meaning;
  add_pair_settings(config.integer("encoder_layers", 1, 1 << 16),
                    config.integer("decoder_layers", 1, 1 << 16),
                    meaning.settings);
  const ModelSettings more = {
      {"model.vocab_size", fmt::format("{}", vocabulary)},
      {"model.hidden_size", fmt::format("{}", width)},
      {"model.num_attention_heads", fmt::format("{}", heads)},
      {"model.intermediate_size", fmt::format("{}", equal(config, "ffn_dim", 1 << 28))},
      {"model.activation",
       config.has("activation_function") ? from_hf_activation(config, "activation_function")
                                         : "gelu"},
      {"model.norm.position", "post"},
      {"model.position_embedding_type", "learned"},
      {"model.max_position_embeddings", fmt::format("{}", positions)},
      {"model.position_embedding_offset", fmt::format("{}", first_position)},
      {"model.scale_embedding", config.flag("scale_embedding", false) ? "true" : "false"},
      {"model.layernorm_embedding", "true"},
      {"model.initializer_range", fmt::format("{}", config.number("init_std", 0.02, from_0))},
  };
  meaning.settings.insert(meaning.settings.end(), more.begin(), more.end());
  add_example_length(positions, meaning.settings);
  read_dropouts(config, meaning);
  read_ids(config, vocabulary, meaning);
  note_generation_settings(config, meaning);
  config.finish();
  return meaning;
}

nlohmann::ordered_json write(const ModelValues& values) {
  const std::int64_t width = values.integer("model.hidden_size");
  const std::int64_t heads = values.integer("model.num_attention_heads");
  const std::int64_t hidden = values.integer_or("model.intermediate_size", 4 * width);
  const std::int64_t encoder_layers = encoder_layers_of(values);
  const double dropout = values.number_or("model.dropout", 0);
  return {{"model_type", "bart"},
          {"is_encoder_decoder", true},
          {"vocab_size", values.integer("model.vocab_size")},
          {"d_model", width},
          {"encoder_layers", encoder_layers},
          {"decoder_layers", values.integer("model.num_hidden_layers")},
          {"num_hidden_layers", encoder_layers},
          {"encoder_attention_heads", heads},
          {"decoder_attention_heads", heads},
          {"encoder_ffn_dim", hidden},
          {"decoder_ffn_dim", hidden},
          {"activation_function", to_hf_activation(values.text("model.activation"))},
          {"dropout", dropout},
          {"activation_dropout", dropout},
          {"attention_dropout", values.number_or("model.attention.dropout", 0)},
          {"max_position_embeddings", values.integer_or("model.max_position_embeddings", 2)},
          {"scale_embedding", values.is("model.scale_embedding", "true")},
          {"init_std", values.number_or("model.initializer_range", 0.02)},
          {"tie_word_embeddings", true}};
}

// Adds a stack, "encoder" or "decoder".
void add_stack(const std::string& stack, std::int64_t layers, std::vector<TensorPair>& pairs) {
  const std::string body = "model." + stack + ".";
  pairs.push_back({body + "embed_positions.weight", {stack + "/positions/weight"}});
  const auto add = [&](const std::string& there, const std::string& here) {
    for (const std::string each : {"weight", "bias"})
      pairs.push_back({there + "." + each, {here + "/" + each}});
  };
  const auto add_attention = [&](const std::string& there, const std::string& here) {
    for (const auto& [theirs, ours] : {std::pair("q_proj", "query"),
                                       {"k_proj", "key"},
                                       {"v_proj", "value"},
                                       {"out_proj", "out"}})
      add(there + "." + theirs, here + "/" + ours);
    add(there + "_layer_norm", here + "/norm");
  };
  add(body + "layernorm_embedding", stack + "/embedding_norm");
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const std::string there = fmt::format("{}layers.{}.", body, layer);
    const std::string here = fmt::format("{}/layers/{}/", stack, layer);
    add_attention(there + "self_attn", here + "attention");
    if (stack == "decoder") add_attention(there + "encoder_attn", here + "cross_attention");
    add(there + "fc1", here + "feed_forward/in");
    add(there + "fc2", here + "feed_forward/out");
    add(there + "final_layer_norm", here + "feed_forward/norm");
  }
}

std::vector<TensorPair> tensors(const ModelValues& values) {
  std::vector<TensorPair> pairs = {{"model.shared.weight", {"embedding/weight"}}};
  add_stack("encoder", encoder_layers_of(values), pairs);
  add_stack("decoder", values.integer("model.num_hidden_layers"), pairs);
  return pairs;
}

// Saved by older versions.
bool is_constant(std::string_view name) {
  return name == "encoder.version" || name == "decoder.version";
}

std::vector<std::pair<std::string, std::string>> copies(const ModelValues&) {
  const std::string table = "model.shared.weight";
  return {{"model.encoder.embed_tokens.weight", table},
          {"model.decoder.embed_tokens.weight", table},
          {"lm_head.weight", table}};
}

}  // namespace

Architecture architecture() {
  return {.model_type = "bart",
          .name = "BART",
          .family = "encoder_decoder",
          .model_classes = {"BartForConditionalGeneration", "BartModel"},
          .prefix = "model.",
          .read = read,
          .write = write,
          .tensors = tensors,
          .is_constant = is_constant,
          .copies = copies,
          .zeros = [](const ModelValues& values)
              -> std::vector<std::pair<std::string, std::vector<std::int64_t>>> {
            return {{"final_logits_bias", {1, values.integer("model.vocab_size")}}};
          }};
}

}  // namespace longspan::bart
