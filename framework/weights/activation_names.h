// Activations as the package transformers calls them.
#pragma once

#include <string>

#include "framework/weights/model_config.h"

namespace longspan {

// model.activation for what a key says. Throws DataError where Longspan has no such activation.
std::string activation_here(const ModelConfig& config, const std::string& key);
// The same of a name that is a part of what the key says.
std::string activation_here(const ModelConfig& config,
                            const std::string& key,
                            const std::string& there);

// The inverse. Of an activation that the package has not it is another one, which is seen when the
// two models are compared.
std::string activation_there(const std::string& here);

}  // namespace longspan
