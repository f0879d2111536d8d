// What a text is cut into before a model cuts words into tokens.
#pragma once

#include <functional>
#include <string_view>

#include "framework/tokenizers/aligned_text.h"
#include "framework/tokenizers/json_place.h"

namespace longspan {

using PieceSink = std::function<void(const TextPiece&)>;
// Gives the pieces of a piece, none of them empty, in order. The sink must not keep them.
// Thread-safe.
using PreTokenizer = std::function<void(const TextPiece&, const PieceSink&)>;

struct ReadPreTokenizer {
  PreTokenizer cut;            // empty: the whole text is one piece
  bool ends_in_bytes = false;  // each piece is still to be written in letters of bytes
};

// Of the member "pre_tokenizer" of a file. A last step of the kind ByteLevel writes bytes as
// letters (byte_to_unicode.h), which is left to who asks where `leaves_bytes`. Throws DataError for
// a kind that is not known.
ReadPreTokenizer read_pre_tokenizer(const JsonCursor& json, bool leaves_bytes);

}  // namespace longspan
