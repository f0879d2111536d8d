// Pre-tokenizers: split a text into words before the model splits words into tokens.
#pragma once

#include <functional>
#include <string_view>

#include "framework/tokenizers/aligned_text.h"
#include "framework/tokenizers/json_place.h"

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
// (byte_to_unicode.h); with `leaves_bytes` the caller must do that. Throws DataError for an
// unsupported type.
ReadPreTokenizer read_pre_tokenizer(const JsonCursor& json, bool leaves_bytes);

}  // namespace longspan
