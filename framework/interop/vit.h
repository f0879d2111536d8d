// ViT (Dosovitskiy et al. 2021) as the package transformers has it: family encoder with
// model.patch_size and norms before the sublayers; with classes of images, or as a body whose
// readout is still to be learnt. How pixels become numbers stands in preprocessor_config.json.
#pragma once

#include <vector>

#include "framework/interop/architecture.h"

namespace longspan::vit {

std::vector<Architecture> architectures();

}  // namespace longspan::vit
