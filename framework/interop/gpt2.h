// GPT-2 (Radford et al. 2019) as the package transformers has it: family decoder with learned
// positions and norms before the sublayers.
#pragma once

#include "framework/interop/architecture.h"

namespace longspan::gpt2 {

Architecture architecture();

}  // namespace longspan::gpt2
