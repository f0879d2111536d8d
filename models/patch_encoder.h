// An encoder of images whose tokens are patches (Dosovitskiy et al. 2021): encoder.h with
// model.patch_size.
#pragma once

#include <memory>

#include "models/encoder.h"

namespace longspan {

// What keeps an encoder with these options from reading patches, as a sentence; empty where nothing
// does.
std::string patch_encoder_problem(const EncoderOptions& options);

// Throws ConfigurationError with that sentence and with patches_problem.
std::unique_ptr<Backbone> patch_encoder(const Scope& scope,
                                        const EncoderOptions& options,
                                        const ModelBuildOptions& setting);

}  // namespace longspan
