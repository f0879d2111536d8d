#include "framework/interop/hybrid_layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "framework/core/quote.h"
#include "framework/interop/config_keys.h"

namespace longspan {
namespace {

constexpr const char* hf_linear_layer = "linear_attention";
constexpr const char* hf_softmax_layer = "full_attention";
constexpr const char* longspan_linear_layer = "gated_delta_net";
constexpr const char* longspan_softmax_layer = "full";
constexpr const char* layer_types_key = "model.attention.layer_types";

// Sizes of the projections, there and here, with the defaults of `transformers`.
struct NamedSize {
  const char* there;
  const char* here;
  std::int64_t otherwise;
  std::int64_t most;
};
constexpr NamedSize linear_sizes[] = {
    {"linear_num_key_heads", "model.attention.delta_rule.num_key_heads", 16, 1 << 16},
    {"linear_num_value_heads", "model.attention.delta_rule.num_value_heads", 32, 1 << 16},
    {"linear_key_head_dim", "model.attention.delta_rule.key_head_dim", 128, 1 << 16},
    {"linear_value_head_dim", "model.attention.delta_rule.value_head_dim", 128, 1 << 16},
    {"linear_conv_kernel_dim", "model.attention.short_convolution.kernel_size", 4, 64}};

std::vector<std::string> hybrid_types(const ModelConfig& config, std::int64_t layers) {
  std::vector<std::string> types;
  if (!config.has("layer_types")) {
    const std::int64_t interval = config.has("full_attention_interval")
                                      ? config.integer("full_attention_interval", 1, 1 << 16)
                                      : 4;
    for (std::int64_t layer = 1; layer <= layers; ++layer)
      types.emplace_back(layer % interval == 0 ? longspan_softmax_layer : longspan_linear_layer);
    return types;
  }
  config.ignore_keys({"full_attention_interval"});
  for (const std::string& there : config.texts("layer_types")) {
    if (there != hf_linear_layer && there != hf_softmax_layer)
      config.throw_data_error(
          "layer_types",
          fmt::format(
              "expected {} or {}, found {}", hf_linear_layer, hf_softmax_layer, quote(there)));
    types.emplace_back(there == hf_linear_layer ? longspan_linear_layer : longspan_softmax_layer);
  }
  if (std::ssize(types) != layers)
    config.throw_data_error(
        "layer_types",
        fmt::format("expected one for each of {} layers, found {}", layers, types.size()));
  return types;
}

}  // namespace

void read_hybrid_layers(const ModelConfig& config, std::int64_t layers, ModelSettings& settings) {
  // Settings of the dtype of states, of experts, and of layers that predict later tokens.
  config.ignore_keys({"mamba_ssm_dtype",
                      "mlp_only_layers",
                      "mtp_num_hidden_layers",
                      "mtp_use_dedicated_embeddings"});
  config.require_flag("attn_output_gate", true, "full_attention layers gate their output");
  config.require_flag("attention_bias", false, "linear_attention layers have no biases");
  if (config.has("hidden_act") && from_hf_activation(config, "hidden_act") != "silu")
    config.throw_data_error("hidden_act",
                            fmt::format("expected silu, which linear_attention layers apply to "
                                        "their convolution, found {}",
                                        quote(config.text("hidden_act"))));
  settings.emplace_back("model.norm.zero_centered", "true");
  settings.emplace_back("model.attention.output_gate", "true");
  const std::vector<std::string> types = hybrid_types(config, layers);
  std::vector<std::int64_t> sizes;
  for (const NamedSize& size : linear_sizes)
    sizes.push_back(config.has(size.there) ? config.integer(size.there, 1, size.most)
                                           : size.otherwise);
  if (sizes[1] % sizes[0] != 0)
    config.throw_data_error(
        linear_sizes[0].there,
        fmt::format(
            "expected a divisor of {} ({}), found {}", linear_sizes[1].there, sizes[1], sizes[0]));
  if (std::ranges::count(types, longspan_linear_layer) == 0) return;
  settings.emplace_back(layer_types_key,
                        fmt::format("[{}]", fmt::join(shortest_period(types), ", ")));
  for (std::size_t i = 0; i < sizes.size(); ++i)
    settings.emplace_back(linear_sizes[i].here, fmt::format("{}", sizes[i]));
  settings.emplace_back("model.attention.delta_rule.norm_eps",
                        fmt::format("{}", config.number("rms_norm_eps", 1e-6, above_0)));
}

bool is_linear_layer(const ModelValues& values, std::int64_t layer) {
  const std::vector<std::string> types = values.texts(layer_types_key);
  return types[static_cast<std::size_t>(layer) % types.size()] == longspan_linear_layer;
}

void write_hybrid_layers(const ModelValues& values, nlohmann::ordered_json& config) {
  std::vector<std::string> types;
  for (std::int64_t layer = 0; layer < values.integer("model.num_hidden_layers"); ++layer)
    types.emplace_back(is_linear_layer(values, layer) ? hf_linear_layer : hf_softmax_layer);
  config["attention_bias"] = false;
  config["layer_types"] = types;
  for (const NamedSize& size : linear_sizes)
    config[size.there] = values.integer_or(size.here, size.otherwise);
}

void add_linear_attention(const ModelValues& values,
                          const std::string& there,
                          const std::string& here,
                          std::vector<TensorPair>& pairs) {
  const auto size = [&](std::size_t index) {
    return values.integer_or(linear_sizes[index].here, linear_sizes[index].otherwise);
  };
  const std::int64_t channels = 2 * size(0) * size(2) + size(1) * size(3);
  const auto add = [&](const std::string& name, std::vector<std::string> parts) -> TensorPair& {
    for (std::string& part : parts) part.insert(0, here);
    return pairs.emplace_back(TensorPair{there + "linear_attn." + name, std::move(parts)});
  };
  add("in_proj_qkv.weight", {"query/weight", "key/weight", "value/weight"});
  add("in_proj_z.weight", {"output_gate/weight"});
  add("in_proj_b.weight", {"beta/weight"});
  add("in_proj_a.weight", {"decay/weight"});
  add("conv1d.weight", {"query_convolution", "key_convolution", "value_convolution"}).shape = {
      channels, 1, size(4)};
  add("dt_bias", {"decay/bias"});
  add("A_log", {"log_rate"});
  add("norm.weight", {"head_norm/weight"});
  add("out_proj.weight", {"out/weight"});
}

}  // namespace longspan
