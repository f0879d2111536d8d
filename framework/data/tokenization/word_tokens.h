// Words of a sentence as tokens.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "framework/data/tokenization/special_token_template.h"

namespace longspan {

// A value. Words are separated by a space if the tokenizer has one. With a tokenizer.json, each
// word but the first is encoded with a leading space, as Hugging Face `tokenizers` encode
// pretokenized words. (They require "add_prefix_space" where words begin with spaces.) Special
// tokens surround the sentence.
class WordTokens {
 public:
  explicit WordTokens(const Tokenizer& tokenizer);

  // Append the special tokens that begin or end a sentence.
  void begin(std::vector<std::int64_t>& tokens) const;
  void end(std::vector<std::int64_t>& tokens) const;
  const SpecialTokenTemplate& frame() const { return frame_; }
  // Appends the tokens of a word and returns the index of the tagged one: its first, not counting a
  // separate space token. Throws DataError, prefixed with `place`, for a word that the tokenizer
  // rejects or that has no tokens.
  std::size_t add(std::string_view word,
                  std::string_view place,
                  std::vector<std::int64_t>& tokens) const;

 private:
  Tokenizer tokenizer_;
  SpecialTokenTemplate frame_;
  bool space_is_a_token_;
  bool has_space_;
};

}  // namespace longspan
