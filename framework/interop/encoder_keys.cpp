#include "framework/interop/encoder_keys.h"

#include <fmt/format.h>

#include "framework/interop/activation_names.h"

namespace longspan {

ModelSettings read_encoder_keys(const ModelConfig& config, double dropout) {
  constexpr std::int64_t widest = std::int64_t{1} << 24;
  const std::int64_t width = config.integer("hidden_size", 1, widest);
  const std::int64_t heads = config.integer("num_attention_heads", 1, 1 << 16);
  if (width % heads != 0)
    config.throw_data_error(
        "num_attention_heads",
        fmt::format("expected a divisor of hidden_size ({}), found {}", width, heads));
  const auto number = [](auto value) { return fmt::format("{}", value); };
  return {
      {"model.family", "encoder"},
      {"model.num_hidden_layers", number(config.integer("num_hidden_layers", 1, 1 << 16))},
      {"model.hidden_size", number(width)},
      {"model.num_attention_heads", number(heads)},
      {"model.intermediate_size", number(config.integer("intermediate_size", 1, 1 << 28))},
      {"model.activation",
       config.has("hidden_act") ? from_hf_activation(config, "hidden_act") : "gelu"},
      {"model.norm.eps", number(config.number("layer_norm_eps", 1e-12, above_0))},
      {"model.initializer_range", number(config.number("initializer_range", 0.02, from_0))},
      {"model.dropout", number(config.number("hidden_dropout_prob", dropout, of_dropout))},
      {"model.attention.dropout",
       number(config.number("attention_probs_dropout_prob", dropout, of_dropout))},
  };
}

nlohmann::ordered_json write_encoder_keys(const ModelValues& values) {
  const std::int64_t width = values.integer("model.hidden_size");
  return {{"hidden_size", width},
          {"num_hidden_layers", values.integer("model.num_hidden_layers")},
          {"num_attention_heads", values.integer("model.num_attention_heads")},
          {"intermediate_size", values.integer_or("model.intermediate_size", 4 * width)},
          {"hidden_act", to_hf_activation(values.text("model.activation"))},
          {"hidden_dropout_prob", values.number_or("model.dropout", 0)},
          {"attention_probs_dropout_prob", values.number_or("model.attention.dropout", 0)},
          {"initializer_range", values.number_or("model.initializer_range", 0.02)},
          {"layer_norm_eps", values.number_or("model.norm.eps", 0)}};
}

}  // namespace longspan
