// Token tagging head. Each word is tagged at its first token.
#pragma once

#include "framework/modeling/output_head.h"

namespace longspan {

// Predicts ModelBuildOptions::classes tags, in the scope "output", with OutputHeadSpec::tags. Loss
// term "loss", over "tokens": the negative log-likelihood of `targets` [rows, time] in nats, with a
// softmax per tag or a CRF per sentence. Positions with ignored_target (padding, later tokens of a
// word) are skipped. Neighbors in the CRF chain are the first tokens of adjacent words. Ranks that
// share time first gather the scores, which are narrow. Each then computes the losses of a part of
// the rows.
OutputHeadFactory tagging_head();

}  // namespace longspan
