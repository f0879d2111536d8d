// BERT (Devlin et al. 2019) and RoBERTa (Liu et al. 2019) as the package transformers has them:
// family encoder with learned positions, types of tokens and norms after the sublayers; with
// classes of texts, with tags, or as bodies whose readout is still to be learnt.
#pragma once

#include <vector>

#include "framework/interop/architecture.h"

namespace longspan::bert {

std::vector<Architecture> architectures();

}  // namespace longspan::bert
