// Streaming detokenization.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

// Text of tokens that arrive one by one. A subword's text depends on its predecessors: a line's
// first space is dropped, and several tokens can form one character.
class TextStreamer {
 public:
  // `before`: tokens of the prompt.
  TextStreamer(const Tokenizer& tokenizer, std::span<const std::int64_t> before);

  // Returns the text that this token adds: complete characters for pieces and words, and possibly
  // partial ones for bytes and byte-level tokens.
  std::string push(std::int64_t token);
  // Returns the rest of an incomplete character.
  std::string finish();

 private:
  std::string emitted_text() const;

  Tokenizer tokenizer_;
  std::vector<std::int64_t> tokens_;  // the last emitted, then those held back
  std::size_t given_ = 0;             // number of emitted ones
};

}  // namespace longspan
