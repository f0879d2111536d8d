// The keys of config.json that encoders have alike, BERT's of texts and ViT's of images.
#pragma once

#include "framework/interop/architecture.h"

namespace longspan {

// The family, its sizes, activation, epsilon of norms, initial deviation and dropouts, which are
// `dropout` where they are not said. Throws DataError where they are out of bounds or heads do not
// divide the width.
ModelSettings read_encoder_keys(const ModelConfig& config, double dropout);

// The inverse: what a config.json says of a run with these values.
nlohmann::ordered_json write_encoder_keys(const ModelValues& values);

}  // namespace longspan
