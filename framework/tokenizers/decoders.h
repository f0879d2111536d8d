// Decoders: tokens to text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/tokenizers/json_place.h"

namespace longspan {

// Maps the texts of tokens to consecutive parts of the decoded text.
using TokenDecoder = std::function<std::vector<std::string>(std::vector<std::string>)>;

// Reads the member "decoder" of a file. Returns empty for null: tokens are then joined by spaces.
// Throws DataError for an unsupported type.
TokenDecoder read_token_decoder(const JsonCursor& json);

}  // namespace longspan
