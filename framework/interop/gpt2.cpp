#include "framework/core/error.h"
#include "framework/interop/architecture.h"
#include "framework/interop/config_keys.h"

namespace longspan::gpt2 {
namespace {

constexpr std::int64_t most = std::int64_t{1} << 24;

void check_functions(const ModelConfig& config) {
  config.require_flag(
      "scale_attn_weights", true, "scores are divided by the square root of the head dimension");
  config.require_flag(
      "scale_attn_by_inverse_layer_idx", false, "all layers scale scores the same way");
  config.require_decoder_alone();
}

ImportedConfig read(const ModelConfig& config) {
  check_functions(config);
  // Older versions wrote "n_ctx", "n_special" and "predict_special_tokens", which are never read.
  // The "summary" keys configure another head. Computing scores in a wider dtype changes only
  // rounding.
  config.ignore_keys({"n_ctx",
                      "summary_type",
                      "summary_use_proj",
                      "summary_activation",
                      "summary_proj_to_labels",
                      "summary_first_dropout",
                      "n_special",
                      "predict_special_tokens",
                      "reorder_and_upcast_attn"});
  config.pass_over_common();
  const std::int64_t width = config.integer("n_embd", 1, most);
  const std::int64_t heads = config.integer("n_head", 1, 1 << 16);
  if (width % heads != 0)
    config.throw_data_error(
        "n_head", fmt::format("expected a divisor of n_embd ({}), found {}", width, heads));
  const std::int64_t hidden =
      config.has("n_inner") ? config.integer("n_inner", 1, 1 << 28) : 4 * width;
  const std::int64_t positions = config.integer("n_positions", 1, 1 << 28);
  const double dropout = config.number("resid_pdrop", 0.1, of_dropout);
  const double of_embedding = config.number("embd_pdrop", 0.1, of_dropout);
  const double deviation = config.number("initializer_range", 0.02, from_0);
  ImportedConfig meaning;
  meaning.settings = {
      {"model.family", "decoder"},
      {"model.vocab_size",
       fmt::format("{}", config.integer("vocab_size", 1, std::int64_t{1} << 31))},
      {"model.num_hidden_layers", fmt::format("{}", config.integer("n_layer", 1, 1 << 16))},
      {"model.hidden_size", fmt::format("{}", width)},
      {"model.num_attention_heads", fmt::format("{}", heads)},
      {"model.intermediate_size", fmt::format("{}", hidden)},
      {"model.activation",
       config.has("activation_function") ? from_hf_activation(config, "activation_function")
                                         : "gelu_tanh"},
      {"model.norm.position", "pre"},
      {"model.norm.eps", fmt::format("{}", config.number("layer_norm_epsilon", 1e-5, above_0))},
      {"model.position_embedding_type", "learned"},
      {"model.max_position_embeddings", fmt::format("{}", positions)},
      {"model.tie_word_embeddings", config.flag("tie_word_embeddings", true) ? "true" : "false"},
      {"model.dropout", fmt::format("{}", dropout)},
      {"model.attention.dropout", fmt::format("{}", config.number("attn_pdrop", 0.1, of_dropout))},
      {"model.initializer_range", fmt::format("{}", deviation)},
      {"data.seq_length", fmt::format("{}", positions)},
      {"data.global_batch_size", "1"},
  };
  if (of_embedding != dropout)
    meaning.remarks.push_back(fmt::format(
        "\"embd_pdrop\" is {}, but \"resid_pdrop\" is {}: model.dropout uses the latter for both",
        of_embedding,
        dropout));
  if (dropout > 0)
    meaning.remarks.push_back(
        "in training, model.dropout also applies inside feed-forward layers; GPT-2 does not apply "
        "it there");
  config.finish();
  return meaning;
}

nlohmann::ordered_json write(const ModelValues& values) {
  const std::int64_t width = values.integer("model.hidden_size");
  const double dropout = values.number_or("model.dropout", 0);
  return {{"model_type", "gpt2"},
          {"vocab_size", values.integer("model.vocab_size")},
          {"n_positions", values.integer_or("model.max_position_embeddings", 1)},
          {"n_embd", width},
          {"n_layer", values.integer("model.num_hidden_layers")},
          {"n_head", values.integer("model.num_attention_heads")},
          {"n_inner", values.integer_or("model.intermediate_size", 4 * width)},
          {"activation_function", to_hf_activation(values.text("model.activation"))},
          {"layer_norm_epsilon", values.number_or("model.norm.eps", 0)},
          {"resid_pdrop", dropout},
          {"embd_pdrop", dropout},
          {"attn_pdrop", values.number_or("model.attention.dropout", 0)},
          {"initializer_range", values.number_or("model.initializer_range", 0.02)},
          {"scale_attn_weights", true},
          {"tie_word_embeddings", values.is("model.tie_word_embeddings", "true")},
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr}};
}

bool is_tied(const ModelValues& values) { return values.is("model.tie_word_embeddings", "true"); }

std::vector<TensorPair> tensors(const ModelValues& values) {
  std::vector<TensorPair> pairs = {{"transformer.wte.weight", {"embedding/weight"}},
                                   {"transformer.wpe.weight", {"positions/weight"}}};
  const auto add = [&](const std::string& there, const std::vector<std::string>& here) {
    pairs.push_back({there, here});
  };
  // A linear layer with an [in, out] weight and a bias.
  const auto add_linear = [&](const std::string& there, const std::vector<std::string>& here) {
    for (const std::string kind : {"weight", "bias"}) {
      TensorPair pair = {there + "." + kind, {}};
      for (const std::string& name : here) pair.longspan_names.push_back(name + "/" + kind);
      if (kind == "weight") pair.orientation = Orientation::transposed;
      pairs.push_back(std::move(pair));
    }
  };
  for (std::int64_t layer = 0; layer < values.integer("model.num_hidden_layers"); ++layer) {
    const std::string there = fmt::format("transformer.h.{}.", layer);
    const std::string attention = fmt::format("layers/{}/attention/", layer);
    const std::string feed = fmt::format("layers/{}/feed_forward/", layer);
    add(there + "ln_1.weight", {attention + "norm/weight"});
    add(there + "ln_1.bias", {attention + "norm/bias"});
    add_linear(there + "attn.c_attn",
               {attention + "query", attention + "key", attention + "value"});
    add_linear(there + "attn.c_proj", {attention + "out"});
    add(there + "ln_2.weight", {feed + "norm/weight"});
    add(there + "ln_2.bias", {feed + "norm/bias"});
    add_linear(there + "mlp.c_fc", {feed + "in"});
    add_linear(there + "mlp.c_proj", {feed + "out"});
  }
  add("transformer.ln_f.weight", {"final_norm/weight"});
  add("transformer.ln_f.bias", {"final_norm/bias"});
  if (!is_tied(values)) add("lm_head.weight", {"output/weight"});
  return pairs;
}

// "h.0.attn.bias": the causal mask, saved by older versions.
bool is_constant(std::string_view name) {
  return name.starts_with("h.") &&
         (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

std::vector<std::pair<std::string, std::string>> copies(const ModelValues& values) {
  if (!is_tied(values)) return {};
  return {{"lm_head.weight", "transformer.wte.weight"}};
}

}  // namespace

Architecture architecture() {
  return {.model_type = "gpt2",
          .name = "GPT-2",
          .family = "decoder",
          .model_classes = {"GPT2LMHeadModel", "GPT2Model"},
          .prefix = "transformer.",
          .read = read,
          .write = write,
          .tensors = tensors,
          .is_constant = is_constant,
          .copies = copies};
}

}  // namespace longspan::gpt2
