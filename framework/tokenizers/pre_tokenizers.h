// Pre-tokenizers, which split a text into words before the model splits words into tokens, and
// decoders.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/tokenizers/json_place.h"
#include "framework/tokenizers/normalizers.h"

namespace longspan {

using PieceSink = std::function<void(const TextPiece&)>;
// Passes the non-empty pieces of a piece to the sink in order. The sink must not retain them.
// Thread-safe.
using PreTokenizer = std::function<void(const TextPiece&, const PieceSink&)>;

struct ReadPreTokenizer {
  PreTokenizer cut;            // empty: the complete text is one piece
  bool ends_in_bytes = false;  // the caller must apply the byte-to-character map
};

// Reads the member "pre_tokenizer" of a file. A final ByteLevel step maps bytes to characters
// (characters.h); with `leaves_bytes` the caller must do that. Throws DataError for an
// unsupported type.
ReadPreTokenizer read_pre_tokenizer(const JsonCursor& json, bool leaves_bytes);

// Decoders: tokens to text.

// Maps the texts of tokens to consecutive parts of the decoded text.
using TokenDecoder = std::function<std::vector<std::string>(std::vector<std::string>)>;

// Reads the member "decoder" of a file. Returns empty for null: tokens are then joined by spaces.
// Throws DataError for an unsupported type.
TokenDecoder read_token_decoder(const JsonCursor& json);

}  // namespace longspan
