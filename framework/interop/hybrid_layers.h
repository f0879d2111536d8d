// Layers of Qwen 3.5 (dense models) of Hugging Face `transformers`: gated_delta_net in
// "linear_attention" layers, and softmax attention with an output gate in "full_attention" layers.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "framework/interop/architecture.h"
#include "framework/interop/model_config.h"

namespace longspan {

// Adds the settings of both kinds of layers. `layers`: number of layers. Throws DataError.
void read_hybrid_layers(const ModelConfig& config, std::int64_t layers, ModelSettings& settings);

// Inverse of read_hybrid_layers. A layer of another type is detected when both models are compared.
void write_hybrid_layers(const ModelValues& values, nlohmann::ordered_json& config);

// Returns whether a layer is a "linear_attention" layer.
bool is_linear_layer(const ModelValues& values, std::int64_t layer);

// Appends the tensors of such a layer's attention, without its norm. there: "model.layers.0.";
// here: "layers/0/attention/".
void add_linear_attention(const ModelValues& values,
                          const std::string& there,
                          const std::string& here,
                          std::vector<TensorPair>& pairs);

}  // namespace longspan
