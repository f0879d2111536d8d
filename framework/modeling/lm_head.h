// The readout of language models and translation: a distribution over ids at each position.
#pragma once

#include "framework/modeling/output_head.h"

namespace longspan {

// As wide as the body's vocabulary, in the scope "output". One term, "loss": the cross-entropy of
// `targets` [rows, time] in nats by token, over "tokens"; 0 where a target is negative. In
// training they are smoothed as the setting says.
OutputHeadFactory lm_head();

}  // namespace longspan
