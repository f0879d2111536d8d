// Special tokens before and after a text, from the post-processor of Hugging Face tokenizers.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

// A value. Empty for other tokenizers.
class SpecialTokenTemplate {
 public:
  explicit SpecialTokenTemplate(const Tokenizer& tokenizer);

  // Returns the template without its last token if that is `end`, for text to which an end token is
  // appended separately.
  SpecialTokenTemplate without_end(std::int64_t end) const;

  const std::vector<std::int64_t>& before() const { return before_; }
  const std::vector<std::int64_t>& after() const { return after_; }
  // Number of tokens of both.
  std::int64_t tokens() const { return static_cast<std::int64_t>(before_.size() + after_.size()); }
  // Returns how many text tokens fit among `most` (0: any number) with the template. Throws
  // DataError, prefixed with `place`, if none fit.
  std::int64_t room(std::int64_t most, std::string_view place) const;

 private:
  std::vector<std::int64_t> before_;
  std::vector<std::int64_t> after_;
};

// Returns the ids with the special tokens, at most `longest` (0: any) in total. Only text tokens
// are truncated. Throws DataError, prefixed with the place, if no text token fits.
std::vector<std::int64_t> add_special_tokens(const SpecialTokenTemplate& frame,
                                             std::vector<std::int64_t> ids,
                                             std::string_view place,
                                             std::int64_t longest = 0);

// Encodes a text and adds special tokens. Throws as Tokenizer::encode, and DataError where the text
// has no tokens.
std::vector<std::int64_t> framed_tokens(const Tokenizer& tokenizer,
                                        const SpecialTokenTemplate& frame,
                                        std::string_view text,
                                        std::string_view place,
                                        std::int64_t longest = 0);

}  // namespace longspan
