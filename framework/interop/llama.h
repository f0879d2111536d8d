// Llama 2 and 3 (Touvron et al. 2023; Dubey et al. 2024), Mistral (Jiang et al. 2023), Qwen 2 and 3
// (Yang et al. 2024, 2025) of Hugging Face `transformers`. Family decoder with RoPE, RMSNorm before
// the sublayers and gated feed-forward layers.
#pragma once

#include <vector>

#include "framework/interop/architecture.h"

namespace longspan::llama {

std::vector<Architecture> architectures();

}  // namespace longspan::llama
