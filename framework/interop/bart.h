// BART (Lewis et al. 2020) of Hugging Face `transformers`: family encoder_decoder with post-norm,
// learned positions and one embedding table.
#pragma once

#include "framework/interop/architecture.h"

namespace longspan::bart {

Architecture architecture();

}  // namespace longspan::bart
