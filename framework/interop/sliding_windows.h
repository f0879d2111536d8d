// Sliding-window layers of Hugging Face `transformers`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/interop/architecture.h"

namespace longspan {

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

}  // namespace longspan
