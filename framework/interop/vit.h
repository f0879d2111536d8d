// ViT (Dosovitskiy et al. 2021) of Hugging Face `transformers`: family encoder with
// model.patch_size and pre-norm. Supports image classification, and backbones with an untrained
// output head. preprocessor_config.json defines the pixel transformation.
#pragma once

#include <vector>

#include "framework/interop/architecture.h"

namespace longspan::vit {

std::vector<Architecture> architectures();

}  // namespace longspan::vit
