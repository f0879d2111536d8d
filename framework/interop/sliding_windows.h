// Which layers see a window, as the package transformers writes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/interop/architecture.h"

namespace longspan {

// How an architecture says it.
enum class WindowKeys : std::uint8_t {
  none,      // all layers see everything before
  window,    // "sliding_window", of all layers; null: none
  by_layer,  // "use_sliding_window" with "layer_types" or, before them, "max_window_layers"
};

// Adds model.attention.layer_types and model.attention.sliding_window. `layers`: their number;
// `otherwise`: "sliding_window" where the key is not there. Throws DataError.
void read_windows(const ModelConfig& config,
                  WindowKeys keys,
                  std::int64_t layers,
                  std::int64_t otherwise,
                  ModelSettings& settings);

// The inverse. Where a layer is of another kind than `keys` can say, that is seen when the two
// models are compared.
void write_windows(const ModelValues& values, WindowKeys keys, nlohmann::ordered_json& config);

}  // namespace longspan
