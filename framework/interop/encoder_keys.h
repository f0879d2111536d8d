// Keys of config.json that encoders share: BERT for text and ViT for images.
#pragma once

#include "framework/interop/architecture.h"

namespace longspan {

// Returns the family, sizes, activation, norm epsilon, initializer range and dropouts (default:
// `dropout`). Throws DataError for values out of range, and where the heads do not divide the
// width.
ModelSettings read_encoder_keys(const ModelConfig& config, double dropout);

// Inverse of read_encoder_keys.
nlohmann::ordered_json write_encoder_keys(const ModelValues& values);

}  // namespace longspan
