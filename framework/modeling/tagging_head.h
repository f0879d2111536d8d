// The readout of tags: one of so many for each word, whose first token it is read from.
#pragma once

#include "framework/modeling/output_head.h"

namespace longspan {

// As many tags as ModelBuildOptions::classes, in the scope "output", as OutputHeadSpec::tags says.
// One term, "loss", over "tokens": minus the log-probability of `targets` [rows, time], in nats,
// with a softmax of each, with a random field of each sentence. What is ignored_target there, the
// rest of a word or padding, is left out: neighbours of a chain are the first tokens of two words,
// however many lie between. Where ranks share time they first share the scores, which are narrow,
// and each makes the losses of a part of the rows.
OutputHeadFactory tagging_head();

}  // namespace longspan
