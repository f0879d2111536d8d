// Words of a sentence as tokens.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "framework/data/tokenization/special_token_template.h"

namespace longspan {

// A value. Words have a space between them where the tokenizer has one. Of a tokenizer.json each
// word is a text of its own that begins with a space, but for the first, as its package has words
// that are cut already (which wants its "add_prefix_space" where words begin with spaces); those
// that begin and end a sentence stand around them.
class WordTokens {
 public:
  explicit WordTokens(const Tokenizer& tokenizer);

  // Adds what begins or ends a sentence.
  void begin(std::vector<std::int64_t>& tokens) const;
  void end(std::vector<std::int64_t>& tokens) const;
  const SpecialTokenTemplate& frame() const { return frame_; }
  // Adds the tokens of a word to those of the words before it and returns which of them has its
  // tag: its first, but not that of a space that stands alone. Throws DataError, which begins with
  // `place`, for a word that the tokenizer cannot read or sees nothing in.
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
