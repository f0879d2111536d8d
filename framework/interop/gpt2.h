// GPT-2 (Radford et al. 2019) of Hugging Face `transformers`: family decoder with learned positions
// and pre-norm.
#pragma once

#include "framework/interop/architecture.h"

namespace longspan::gpt2 {

Architecture architecture();

}  // namespace longspan::gpt2
