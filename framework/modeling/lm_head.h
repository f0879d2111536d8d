// Output head of language models and translation: a distribution over ids at each position.
#pragma once

#include "framework/modeling/output_head.h"

namespace longspan {

// Has the backbone's vocabulary size, in the scope "output". Loss term "loss", over "tokens": the
// cross-entropy of `targets` [rows, time] in nats per token; 0 where a target is negative. Training
// applies label smoothing as configured.
OutputHeadFactory lm_head();

}  // namespace longspan
