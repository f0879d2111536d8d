// Export of tokenizers to Hugging Face `tokenizers`.
#pragma once

#include <optional>
#include <string>

#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

// Returns a tokenizer.json with the ids of Tokenizer::encode, except for text that contains the
// name of a special token. A tokenizer.json is returned unchanged. Returns nothing for ids. Also
// returns nothing for SentencePiece models of words, with spaces after words, or without a newline
// piece.
std::optional<std::string> package_json(const Tokenizer& tokenizer);

}  // namespace longspan
