// T5 (Raffel et al. 2020) and its version 1.1 of Hugging Face `transformers`. Family
// encoder_decoder with a learned score bias per bucket of relative positions, RMSNorm before the
// sublayers and no other biases.
#pragma once

#include "framework/interop/architecture.h"

namespace longspan::t5 {

Architecture architecture();

}  // namespace longspan::t5
