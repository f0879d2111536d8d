// T5 (Raffel et al. 2020) and its version 1.1 as the package transformers has them: family
// encoder_decoder with a learned bias of scores for each range of distances, rms norms before the
// sublayers and no other biases.
#pragma once

#include "framework/interop/architecture.h"

namespace longspan::t5 {

Architecture architecture();

}  // namespace longspan::t5
