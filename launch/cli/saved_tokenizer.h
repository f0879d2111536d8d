// The tokenizer of the checkpoint that a run continues or starts from.
#pragma once

#include "framework/distributed/communicator.h"
#include "launch/cli/configuration.h"

namespace longspan {

// Collective. Sets data.saved_tokenizer where data.tokenizer.model names no file that is there: to
// that of the run's own checkpoint, where the keys of the tokenizer are those of the checkpoint; or
// to that of training.init_from.path, unless training.init_from.resize_vocab is true or the
// embedding is drawn anew. Where data.tokenizer.type is not set it becomes the kind that
// training.init_from.path has. A checkpoint that cannot be opened is left to those who read its
// weights. Throws ConfigurationError where the task's data need a tokenizer that there is none of.
void take_saved_tokenizer(Configuration& configuration, const Communicator& world);

}  // namespace longspan
