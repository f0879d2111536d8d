// Writes tokenizer files for AutoTokenizer of Hugging Face `transformers`, and the generation
// configuration.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/training_state.h"
#include "framework/data/tokenization/tokenizer.h"
#include "launch/cli/special_tokens.h"

namespace longspan {

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
