// Maps special tokens between the IDs of imported or exported models and the tokenizer's token
// names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/training_state.h"
#include "framework/data/data_options.h"
#include "framework/interop/architecture.h"

namespace longspan {

// Scalars of an imported checkpoint: TokenIds as JSON, and the bytes of generation_config.json if
// there was one.
inline constexpr const char* token_ids_scalar = "import/token_ids";
inline constexpr const char* generation_config_scalar = "import/generation_config";

// Adds data.tokenizer.decoder_start_token, data.tokenizer.eos_token and
// data.tokenizer.forced_bos_token for the IDs. Throws DataError, prefixed by `place`, for an ID
// outside the tokenizer's vocabulary.
void add_sentence_tokens(const TokenIds& ids,
                         const Tokenizer& tokenizer,
                         const std::string& place,
                         ModelSettings& settings);

// Returns the IDs that the run was imported with, or else those of its data. In the latter case
// padding and document begin are the tokens <pad> and <s>, if they exist.
TokenIds token_ids_of(const Scalars& scalars, const Tokenizer& tokenizer, const DataOptions& data);

// IDs between the documents of a language model.
struct DocumentTokens {
  std::optional<std::int64_t> begin = {};  // precedes a document
  std::vector<std::int64_t> ends = {};     // each follows a document; the first is the default
};

// Returns the begin and end tokens of documents. Ends: data.documents.end_token, those of an
// imported generation_config.json or config.json, or else the tokenizer's special token with a
// usual name, as <|endoftext|>. Begin: the imported bos_token_id, or else the first end, which
// precedes all documents but the first. Leaves out IDs and names that the tokenizer lacks: the run
// did not use them.
DocumentTokens document_tokens_of(const Scalars& scalars,
                                  const Tokenizer& tokenizer,
                                  const DataOptions& data);

}  // namespace longspan
