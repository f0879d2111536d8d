// Words of a sentence as tokens.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "framework/data/tokenizer.h"

namespace longspan {

// A value. Words have a space between them where the tokenizer has one.
class WordTokens {
 public:
  explicit WordTokens(const Tokenizer& tokenizer);

  // Adds the tokens of a word to those of the words before it and returns which of them has its
  // tag: its first, but not that of a space that stands alone. Throws DataError, which begins with
  // `place`, for a word that the tokenizer cannot read or sees nothing in.
  std::size_t add(std::string_view word,
                  std::string_view place,
                  std::vector<std::int64_t>& tokens) const;

 private:
  Tokenizer tokenizer_;
  bool space_is_a_token_;
  bool has_space_;
};

}  // namespace longspan
