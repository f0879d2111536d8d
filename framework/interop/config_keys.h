// Keys of config.json of Hugging Face `transformers` that several architectures share.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "framework/interop/architecture.h"
#include "framework/interop/model_config.h"

namespace longspan {

// Activation names.

// Returns model.activation, without a gate, of the value of a key. Throws DataError for an
// unsupported activation.
std::string from_hf_activation(const ModelConfig& config, const std::string& key);
// Returns model.activation of a name within the value of a key.
std::string from_hf_activation(const ModelConfig& config,
                               const std::string& key,
                               const std::string& there);

// Returns model.activation of a layer with this gate activation: swiglu for silu.
std::string gated_activation(const std::string& inner);
// Returns whether a value of model.activation is gated.
bool is_gated_activation(const std::string& here);

// Inverse of from_hf_activation; for a gated activation, the name of its gate's. An activation
// without a counterpart gets another name, which the comparison of both models detects.
std::string to_hf_activation(const std::string& here);

// RoPE settings: "rope_theta" and "rope_scaling", or, since version 5, the object
// "rope_parameters".

// Adds model.position_embedding_type and the keys of model.rope. `positions`:
// "max_position_embeddings". `rotated`: default of "partial_rotary_factor"; none: the architecture
// rotates all features. Throws DataError for unsupported settings.
void read_rope(const ModelConfig& config,
               std::int64_t positions,
               ModelSettings& settings,
               std::optional<double> rotated = {});

// Inverse of read_rope: sets "rope_theta", "rope_scaling" and "max_position_embeddings".
void write_rope(const ModelValues& values, nlohmann::ordered_json& config);
// As above, with the object "rope_parameters" and its "partial_rotary_factor".
void write_rope_parameters(const ModelValues& values, nlohmann::ordered_json& config);

// Returns the shortest list whose repetition equals this one.
std::vector<std::string> shortest_period(const std::vector<std::string>& kinds);

// Sliding-window layers.

// Notation of an architecture.
enum class WindowKeys : std::uint8_t {
  none,      // all layers have full attention
  window,    // "sliding_window", for all layers; null: none
  by_layer,  // "use_sliding_window" with "layer_types" or, in older versions, "max_window_layers"
};

// Adds model.attention.layer_types and model.attention.sliding_window. `layers`: number of layers;
// `otherwise`: default of "sliding_window". Throws DataError.
void read_windows(const ModelConfig& config,
                  WindowKeys keys,
                  std::int64_t layers,
                  std::int64_t otherwise,
                  ModelSettings& settings);

// Inverse of read_windows. A layer that `keys` cannot express is detected when both models are
// compared.
void write_windows(const ModelValues& values, WindowKeys keys, nlohmann::ordered_json& config);

// Keys of config.json that encoders share: BERT for text and ViT for images.

// Returns the family, sizes, activation, norm epsilon, initializer range and dropouts (default:
// `dropout`). Throws DataError for values out of range, and where the heads do not divide the
// width.
ModelSettings read_encoder_keys(const ModelConfig& config, double dropout);

// Inverse of read_encoder_keys.
nlohmann::ordered_json write_encoder_keys(const ModelValues& values);

// Common settings of seq2seq configurations.

// Adds the keys of the task and of the layers, separately for an encoder of other depth than the
// decoder.
inline void add_pair_settings(std::int64_t encoder_layers,
                              std::int64_t decoder_layers,
                              ModelSettings& settings) {
  settings.emplace_back("run.task", "translation");
  settings.emplace_back("model.family", "encoder_decoder");
  settings.emplace_back("data.train_target", "your-targets.txt");
  settings.emplace_back("model.num_hidden_layers", fmt::format("{}", decoder_layers));
  if (encoder_layers != decoder_layers)
    settings.emplace_back("model.num_encoder_layers", fmt::format("{}", encoder_layers));
}

inline std::int64_t encoder_layers_of(const ModelValues& values) {
  return values.integer_or("model.num_encoder_layers", values.integer("model.num_hidden_layers"));
}

// Adds a remark about unsupported generation settings.
inline void note_generation_settings(const ModelConfig& config, ImportedConfig& meaning) {
  const std::vector<std::string> requests = unsupported_generation_settings(config);
  if (requests.empty()) return;
  meaning.remarks.push_back(
      fmt::format("{}: ignored; longspan generate and evaluate use --beam, --length-penalty and "
                  "--max-extra-length",
                  fmt::join(requests, ", ")));
}

// Maximum example length of a model with a fixed number of positions.

// Adds data.max_length. Padded lengths are multiples of 8 and include one extra token.
inline void add_example_length(std::int64_t positions, ModelSettings& settings) {
  const std::int64_t multiple = positions >= 8 ? 8 : 1;
  settings.emplace_back(
      "data.max_length",
      fmt::format("{}", std::max<std::int64_t>(1, positions / multiple * multiple - 1)));
  if (multiple == 1) settings.emplace_back("data.pad_to_multiple_of", "1");
}

}  // namespace longspan
