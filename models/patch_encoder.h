// Vision Transformer encoder over image patches (Dosovitskiy et al. 2021): encoder.h with
// model.patch_size.
#pragma once

#include <memory>

#include "models/encoder.h"

namespace longspan {

// Returns why an encoder with these options does not support patches; empty if it does.
std::string validate_patch_encoder(const EncoderOptions& options);

// Throws ConfigurationError with validate_patch_encoder or validate_patches.
std::unique_ptr<Backbone> patch_encoder(const Scope& scope,
                                        const EncoderOptions& options,
                                        const ModelBuildOptions& setting);

}  // namespace longspan
