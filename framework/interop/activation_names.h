// Activations as the package transformers calls them.
#pragma once

#include <string>

#include "framework/interop/model_config.h"

namespace longspan {

// model.activation, of a layer without a gate, for what a key says. Throws DataError where Longspan
// has no such activation.
std::string from_hf_activation(const ModelConfig& config, const std::string& key);
// The same of a name that is a part of what the key says.
std::string from_hf_activation(const ModelConfig& config,
                               const std::string& key,
                               const std::string& there);

// model.activation of a layer whose gate has this activation: swiglu for silu.
std::string gated_activation(const std::string& inner);
// Whether a value of model.activation is one of those.
bool is_gated_activation(const std::string& here);

// The inverse; of a gated activation, the name of that of its gate. Of an activation that the
// package has not it is another one, which is seen when the two models are compared.
std::string to_hf_activation(const std::string& here);

}  // namespace longspan
