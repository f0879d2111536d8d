// Tokenizer of the checkpoint that a run resumes or starts from.
#pragma once

#include "framework/distributed/communicator.h"
#include "launch/cli/configuration.h"

namespace longspan {

// Sets data.saved_tokenizer if data.tokenizer.model names no existing file. It is taken from the
// run's own checkpoint if the tokenizer keys agree with it. Otherwise it is taken from
// training.init_from.path, unless training.init_from.resize_vocab is true or the embedding is
// reinitialized. If data.tokenizer.type is not set, it becomes the type in training.init_from.path.
// Leaves a checkpoint that cannot be opened to the readers of its weights. Collective. Throws
// ConfigurationError if the task's data require a tokenizer and there is none.
void use_saved_tokenizer(Configuration& configuration, const Communicator& world);

}  // namespace longspan
