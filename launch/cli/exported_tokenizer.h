// The files of a tokenizer as AutoTokenizer of the package transformers reads them, and how its
// models generate.
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

// Sets scalars with the files next to the tokenizer of an imported folder that an export writes
// again: tokenizer_config.json, special_tokens_map.json, a chat template, generation_config.json.
// Returns a sentence for each that is too large or no JSON, and left out.
std::vector<std::string> keep_tokenizer_files(const std::filesystem::path& folder,
                                              Scalars& scalars);

struct TokenizerExport {
  const Tokenizer& tokenizer;
  const Scalars& scalars;      // of the checkpoint
  DocumentTokens tokens;       // what begins and ends a text; none of encoders
  std::string model_type;      // of config.json
  std::int64_t positions = 0;  // tokens that the model reads at most; 0: not known
  std::optional<std::string> chat_template = {};
};

// Writes tokenizer.json, tokenizer_config.json, special_tokens_map.json and the chat template:
// those that were imported, and for another tokenizer new ones. Returns why there are none; ""
// where there are.
std::string write_tokenizer_files(const TokenizerExport& from, const std::filesystem::path& folder);

// The token that fills a batch, by its usual names; none where the tokenizer has none.
std::optional<std::int64_t> padding_id(const Tokenizer& tokenizer);

// generation_config.json of a language model: the imported one, with the ends of these.
std::string generation_config_text(const Scalars& scalars,
                                   const DocumentTokens& tokens,
                                   std::optional<std::int64_t> padding);

// "eos_token_id": an id, or a list of several.
nlohmann::ordered_json end_ids(const DocumentTokens& tokens);

}  // namespace longspan
