// Special tokens of models that were imported or are exported: ids there, names of a tokenizer's
// tokens here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/training_state.h"
#include "framework/data/data_options.h"
#include "framework/interop/architecture.h"

namespace longspan {

// The scalars of a checkpoint that was imported: TokenIds as JSON, and the bytes of
// generation_config.json where there was one.
inline constexpr const char* token_ids_scalar = "import/token_ids";
inline constexpr const char* generation_config_scalar = "import/generation_config";

// Adds data.tokenizer.decoder_start_token, data.tokenizer.eos_token and
// data.tokenizer.forced_bos_token for what the ids say. Throws DataError, which begins with
// `place`, for an id that is no token of the tokenizer.
void add_sentence_tokens(const TokenIds& ids,
                         const Tokenizer& tokenizer,
                         const std::string& place,
                         ModelSettings& settings);

// Those that the run was imported with, and of another run what its data say: padding and the
// beginning of texts are then the tokens <pad> and <s>, where there are such.
TokenIds token_ids_of(const Scalars& scalars, const Tokenizer& tokenizer, const DataOptions& data);

// Ids between the documents of a language model.
struct DocumentTokens {
  std::optional<std::int64_t> begin = {};  // precedes a document
  std::vector<std::int64_t> ends = {};     // each follows one; the first is the usual one
};

// Ends: data.documents.end_token, those of an imported generation_config.json or config.json, or
// else the special token of the tokenizer that has a usual name, as <|endoftext|>. Begin: the
// imported bos_token_id, or else the first end, which precedes all documents but the first. Ids
// outside of the tokenizer's vocabulary are left out. Throws ConfigurationError as end_of_text_id.
DocumentTokens document_tokens_of(const Scalars& scalars,
                                  const Tokenizer& tokenizer,
                                  const DataOptions& data);

}  // namespace longspan
