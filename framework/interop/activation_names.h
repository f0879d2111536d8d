// Activation names of Hugging Face `transformers`.
#pragma once

#include <string>

#include "framework/interop/model_config.h"

namespace longspan {

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

}  // namespace longspan
