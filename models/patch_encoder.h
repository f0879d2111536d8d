// Vision Transformer encoder over image patches (Dosovitskiy et al. 2021): encoder.h with
// model.patch_size.
#pragma once

#include <memory>

#include "models/encoder.h"

namespace longspan {

// Returns why an encoder with these options does not support patches; empty if it does.
std::string patch_encoder_problem(const EncoderOptions& options);

// Throws ConfigurationError with patch_encoder_problem or patches_problem.
std::unique_ptr<Backbone> patch_encoder(const Scope& scope,
                                        const EncoderOptions& options,
                                        const ModelBuildOptions& setting);

}  // namespace longspan
