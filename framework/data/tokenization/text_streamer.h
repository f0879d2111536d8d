// Tokens as they are generated, to text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

// The text of tokens that come one by one. That of a subword depends on those before it: a space
// goes at the beginning of a line, and several can stand for one character.
class TextStreamer {
 public:
  // `before` are the tokens of the text that is gone on with.
  TextStreamer(const Tokenizer& tokenizer, std::span<const std::int64_t> before);

  // What this token adds. Of pieces and words, whole characters; of bytes and byte-level tokens,
  // the bytes, which may be a part of one.
  std::string push(std::int64_t token);
  // What is left of a character that did not come to its end.
  std::string finish();

 private:
  std::string said() const;

  Tokenizer tokenizer_;
  std::vector<std::int64_t> tokens_;  // the last ones whose text was given, then those held back
  std::size_t given_ = 0;             // of them
};

}  // namespace longspan
