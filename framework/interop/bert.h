// BERT (Devlin et al. 2019) and RoBERTa (Liu et al. 2019) of Hugging Face `transformers`: family
// encoder with learned positions, token types and post-norm. Supports sequence classification,
// tagging, and backbones with an untrained output head.
#pragma once

#include <vector>

#include "framework/interop/architecture.h"

namespace longspan::bert {

std::vector<Architecture> architectures();

}  // namespace longspan::bert
