// Tokens to text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/tokenizers/json_place.h"

namespace longspan {

// Takes the texts of tokens and gives the parts of a text, which follow one another.
using TokenDecoder = std::function<std::vector<std::string>(std::vector<std::string>)>;

// Of the member "decoder" of a file; empty where it is null: tokens then stand with spaces between
// them. Throws DataError for a kind that is not known.
TokenDecoder read_token_decoder(const JsonCursor& json);

}  // namespace longspan
