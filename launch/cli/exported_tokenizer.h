// Tokenizer files for AutoTokenizer of Hugging Face `transformers`, the generation configuration,
// and special tokens, of imported and exported models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/training_state.h"
#include "framework/data/data_options.h"
#include "framework/data/tokenization/tokenizer.h"
#include "framework/interop/architecture.h"

namespace longspan {

// Maps special tokens between the IDs of imported or exported models and the tokenizer's token
// names.

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

// Stores the tokenizer files of an imported folder that an export writes again as scalars. These
// are tokenizer_config.json, special_tokens_map.json, a chat template and generation_config.json.
// Returns a message for each file that is left out, as it is too large or invalid JSON.
std::vector<std::string> copy_tokenizer_files(const std::filesystem::path& folder,
                                              Scalars& scalars);

struct TokenizerExport {
  const Tokenizer& tokenizer;
  const Scalars& scalars;      // of the checkpoint
  DocumentTokens tokens;       // begin and end of a document; empty for encoders
  std::string model_type;      // of config.json
  std::int64_t positions = 0;  // maximum input length in tokens; 0: unknown
  std::optional<std::string> chat_template = {};
};

// Writes tokenizer.json, tokenizer_config.json, special_tokens_map.json and the chat template.
// Writes the imported files, or new ones for another tokenizer. Returns why none were written, or
// an empty string on success.
std::string write_tokenizer_files(const TokenizerExport& from, const std::filesystem::path& folder);

// Returns the padding token, found by its usual names, or nothing.
std::optional<std::int64_t> padding_id(const Tokenizer& tokenizer);

// Returns generation_config.json of a language model: the imported one with these end tokens.
std::string generation_config_text(const Scalars& scalars,
                                   const DocumentTokens& tokens,
                                   std::optional<std::int64_t> padding);

// Returns "eos_token_id": an ID, or a list of several.
nlohmann::ordered_json end_ids(const DocumentTokens& tokens);

}  // namespace longspan
