// Rotary positions as the package transformers writes them: "rope_theta" and "rope_scaling", which
// since its version 5 are one object, "rope_parameters".
#pragma once

#include <nlohmann/json.hpp>

#include "framework/interop/architecture.h"

namespace longspan {

// Adds model.position_embedding_type and the keys of model.rope. `positions`:
// "max_position_embeddings". Throws DataError for what Longspan does not have.
void read_rope(const ModelConfig& config, std::int64_t positions, ModelSettings& settings);

// The inverse: sets "rope_theta", "rope_scaling" and "max_position_embeddings".
void write_rope(const ModelValues& values, nlohmann::ordered_json& config);

}  // namespace longspan
