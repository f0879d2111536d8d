// BART (Lewis et al. 2020) as the package transformers has it: family encoder_decoder with norms
// after the sublayers, learned positions and one table of embeddings.
#pragma once

#include "framework/interop/architecture.h"

namespace longspan::bart {

Architecture architecture();

}  // namespace longspan::bart
