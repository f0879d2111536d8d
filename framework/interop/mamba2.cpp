// Mamba-2 of Hugging Face `transformers`: layers without attention and without feed-forward layers.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/interop/architecture.h"
#include "framework/interop/config_keys.h"

namespace longspan::mamba2 {
namespace {

constexpr std::int64_t max_size = 1 << 20;
// The state covers any length.
constexpr const char* first_segment_length = "2048";

// Integers, there and here, with the defaults of `transformers`.
struct Size {
  const char* there;
  const char* here;
  std::int64_t otherwise;
  std::int64_t most;
};
constexpr Size sizes[] = {{"num_heads", "model.attention.mamba2.num_heads", 128, max_size},
                          {"head_dim", "model.attention.mamba2.head_dim", 64, max_size},
                          {"state_size", "model.attention.mamba2.state_size", 128, max_size},
                          {"n_groups", "model.attention.mamba2.n_groups", 8, max_size},
                          {"conv_kernel", "model.attention.short_convolution.kernel_size", 4, 64}};

std::int64_t integer_or(const ModelConfig& config,
                        const char* key,
                        std::int64_t otherwise,
                        std::int64_t most) {
  return config.has(key) ? config.integer(key, 1, most) : otherwise;
}

void check_functions(const ModelConfig& config) {
  config.require_flag("use_bias", false, "only the step has a bias, \"dt_bias\"");
  config.require_flag("rms_norm", true, "layers normalize their gated output");
  if (config.has("hidden_act") && from_hf_activation(config, "hidden_act") != "silu")
    config.throw_data_error(
        "hidden_act", fmt::format("expected silu, found {}", quote(config.text("hidden_act"))));
  // Settings of the initial weights, of the order of sums, and of the dtype of the residual sum.
  config.ignore_keys({"time_step_rank",
                      "time_step_min",
                      "time_step_max",
                      "time_step_floor",
                      "rescale_prenorm_residual",
                      "chunk_size",
                      "residual_in_fp32",
                      "use_associative_scan"});
}

// Empty: no limits.
std::string step_limit(const ModelConfig& config) {
  if (!config.has("time_step_limit")) return "[]";
  const std::vector<double> limit = config.numbers("time_step_limit");
  if (limit.size() != 2 || !(limit[0] >= 0) || limit[1] < limit[0])
    config.throw_data_error(
        "time_step_limit",
        fmt::format("expected [least, most], found {} numbers or a wrong order", limit.size()));
  if (limit[0] == 0 && limit[1] == std::numeric_limits<double>::max()) return "[]";
  return fmt::format("[{}, {}]", limit[0], limit[1]);
}

ImportedConfig read(const ModelConfig& config) {
  config.pass_over_common();
  config.require_decoder_alone();
  check_functions(config);
  const std::int64_t width = integer_or(config, "hidden_size", 4096, std::int64_t{1} << 24);
  ImportedConfig meaning;
  meaning.settings = {
      {"model.family", "decoder"},
      {"model.vocab_size",
       fmt::format("{}", integer_or(config, "vocab_size", 32768, std::int64_t{1} << 31))},
      {"model.num_hidden_layers",
       fmt::format("{}", integer_or(config, "num_hidden_layers", 64, 1 << 16))},
      {"model.hidden_size", fmt::format("{}", width)},
      {"model.intermediate_size", "0"},
      {"model.norm.position", "pre"},
      {"model.norm.type", "rmsnorm"},
      {"model.norm.eps", fmt::format("{}", config.number("layer_norm_epsilon", 1e-5, above_0))},
      {"model.position_embedding_type", "rope"},
      {"model.tie_word_embeddings", config.flag("tie_word_embeddings", false) ? "true" : "false"},
      {"model.dropout", "0"},
      {"model.initializer_range",
       fmt::format("{}", config.number("initializer_range", 0.1, from_0))},
      {"model.attention.bias", "[]"},
      {"model.attention.layer_types", "[mamba2]"},
      {"model.attention.mamba2.conv_bias", config.flag("use_conv_bias", true) ? "true" : "false"},
      {"model.attention.mamba2.time_step_limit", step_limit(config)},
      {"data.seq_length", first_segment_length},
      {"data.global_batch_size", "1"}};
  for (const Size& size : sizes)
    meaning.settings.emplace_back(
        size.here, fmt::format("{}", integer_or(config, size.there, size.otherwise, size.most)));
  const std::int64_t heads = integer_or(config, "num_heads", sizes[0].otherwise, max_size);
  const std::int64_t dim = integer_or(config, "head_dim", sizes[1].otherwise, max_size);
  const std::int64_t expand = integer_or(config, "expand", 2, max_size);
  if (heads * dim != expand * width)
    config.throw_data_error("num_heads",
                            fmt::format("expected hidden_size * expand = {} divided by head_dim = "
                                        "{}, found {}",
                                        expand * width,
                                        dim,
                                        heads));
  // Softmax attention, of which the model has none, would have as many heads.
  meaning.settings.emplace_back("model.num_attention_heads", fmt::format("{}", heads));
  meaning.settings.emplace_back("model.head_dim", fmt::format("{}", dim + dim % 2));
  config.finish();
  return meaning;
}

std::int64_t size_of(const ModelValues& values, std::size_t index) {
  return values.integer_or(sizes[index].here, sizes[index].otherwise);
}

nlohmann::ordered_json write(const ModelValues& values) {
  nlohmann::ordered_json config = {
      {"model_type", "mamba2"},
      {"vocab_size", values.integer("model.vocab_size")},
      {"hidden_size", values.integer("model.hidden_size")},
      {"num_hidden_layers", values.integer("model.num_hidden_layers")}};
  for (std::size_t i = 0; i < std::size(sizes); ++i) config[sizes[i].there] = size_of(values, i);
  config["expand"] = size_of(values, 0) * size_of(values, 1) / values.integer("model.hidden_size");
  config["use_bias"] = false;
  config["use_conv_bias"] = values.is("model.attention.mamba2.conv_bias", "true");
  config["hidden_act"] = "silu";
  config["layer_norm_epsilon"] = values.number_or("model.norm.eps", 0);
  config["initializer_range"] = values.number_or("model.initializer_range", 0.1);
  config["tie_word_embeddings"] = values.is("model.tie_word_embeddings", "true");
  const std::vector<double> limit = values.numbers("model.attention.mamba2.time_step_limit");
  if (!limit.empty()) config["time_step_limit"] = limit;
  config["bos_token_id"] = nullptr;
  config["eos_token_id"] = nullptr;
  config["pad_token_id"] = nullptr;
  return config;
}

bool is_tied(const ModelValues& values) { return values.is("model.tie_word_embeddings", "true"); }

std::vector<TensorPair> tensors(const ModelValues& values) {
  std::vector<TensorPair> pairs = {{"backbone.embeddings.weight", {"embedding/weight"}}};
  const auto size = [&](std::size_t index) { return size_of(values, index); };
  const std::int64_t channels = size(0) * size(1) + 2 * size(3) * size(2);
  for (std::int64_t layer = 0; layer < values.integer("model.num_hidden_layers"); ++layer) {
    const std::string there = fmt::format("backbone.layers.{}.", layer);
    const std::string here = fmt::format("layers/{}/attention/", layer);
    const auto add = [&](const std::string& name, std::vector<std::string> parts) -> TensorPair& {
      for (std::string& part : parts) part.insert(0, here);
      return pairs.emplace_back(TensorPair{there + name, std::move(parts)});
    };
    add("norm.weight", {"norm/weight"});
    add("mixer.dt_bias", {"step/bias"});
    add("mixer.A_log", {"log_rate"});
    add("mixer.D", {"skip"});
    add("mixer.conv1d.weight",
        {"value_convolution/weight", "key_convolution/weight", "query_convolution/weight"})
        .shape = {channels, 1, size(4)};
    if (values.is("model.attention.mamba2.conv_bias", "true"))
      add("mixer.conv1d.bias",
          {"value_convolution/bias", "key_convolution/bias", "query_convolution/bias"});
    add("mixer.in_proj.weight",
        {"output_gate/weight", "value/weight", "key/weight", "query/weight", "step/weight"});
    add("mixer.norm.weight", {"output_norm"});
    add("mixer.out_proj.weight", {"out/weight"});
  }
  pairs.push_back({"backbone.norm_f.weight", {"final_norm/weight"}});
  if (!is_tied(values)) pairs.push_back({"lm_head.weight", {"output/weight"}});
  return pairs;
}

bool is_constant(std::string_view) { return false; }

std::vector<std::pair<std::string, std::string>> copies(const ModelValues& values) {
  if (!is_tied(values)) return {};
  return {{"lm_head.weight", "backbone.embeddings.weight"}};
}

}  // namespace

Architecture architecture() {
  return {.model_type = "mamba2",
          .name = "Mamba-2",
          .family = "decoder",
          .model_classes = {"Mamba2ForCausalLM", "Mamba2Model"},
          .prefix = "backbone.",
          .read = read,
          .write = write,
          .tensors = tensors,
          .is_constant = is_constant,
          .copies = copies,
          // It has neither attention heads nor feed-forward layers.
          .unused_keys = {"model.num_attention_heads",
                          "model.num_key_value_heads",
                          "model.head_dim",
                          "model.max_position_embeddings",
                          "model.activation",
                          "model.mlp_bias"}};
}

}  // namespace longspan::mamba2
