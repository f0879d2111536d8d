// RoPE settings of Hugging Face `transformers`: "rope_theta" and "rope_scaling", or, since version
// 5, the object "rope_parameters".
#pragma once

#include <nlohmann/json.hpp>

#include "framework/interop/architecture.h"

namespace longspan {

// Adds model.position_embedding_type and the keys of model.rope. `positions`:
// "max_position_embeddings". Throws DataError for unsupported settings.
void read_rope(const ModelConfig& config, std::int64_t positions, ModelSettings& settings);

// Inverse of read_rope: sets "rope_theta", "rope_scaling" and "max_position_embeddings".
void write_rope(const ModelValues& values, nlohmann::ordered_json& config);

}  // namespace longspan
