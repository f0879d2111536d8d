// Special tokens of models that make texts of texts: ids there, names of a tokenizer's tokens here.
#pragma once

#include <string>

#include "checkpoints/training_state.h"
#include "framework/data/data_options.h"
#include "framework/weights/architecture.h"

namespace longspan {

// The scalars of a checkpoint that was imported: TokenIds as JSON, and the bytes of
// generation_config.json where there was one.
inline constexpr const char* token_ids_scalar = "import/token_ids";
inline constexpr const char* generation_config_scalar = "import/generation_config";

// Adds data.begin_token, data.end_token and data.first_token for what the ids say. Throws
// DataError, which begins with `place`, for an id that is no token of the tokenizer.
void add_sentence_tokens(const TokenIds& ids,
                         const Tokenizer& tokenizer,
                         const std::string& place,
                         ModelSettings& settings);

// Those that the run was imported with, and of another run what its data say: padding and the
// beginning of texts are then the tokens <pad> and <s>, where there are such.
TokenIds token_ids_of(const Scalars& scalars, const Tokenizer& tokenizer, const DataOptions& data);

}  // namespace longspan
