// Tokenizers of every kind as the package `tokenizers` reads them.
#pragma once

#include <optional>
#include <string>

#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

// The bytes of a tokenizer.json that gives the ids of Tokenizer::encode, but for a text that holds
// the name of a special token. A tokenizer.json is given back as it is. None of what has no text
// (ids), and of SentencePiece models of words, with spaces after words, or without a piece for a
// newline.
std::optional<std::string> package_json(const Tokenizer& tokenizer);

}  // namespace longspan
