// The tokens that begin and end a text of its own, as tokenizers of the package `tokenizers` say.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

// A value. Tokenizers of other kinds have none.
class SpecialTokenTemplate {
 public:
  explicit SpecialTokenTemplate(const Tokenizer& tokenizer);

  // The same without the last token behind a text, where that is `end`: for a text that gets an end
  // of its own.
  SpecialTokenTemplate without_end(std::int64_t end) const;

  const std::vector<std::int64_t>& before() const { return before_; }
  const std::vector<std::int64_t>& after() const { return after_; }
  // Of both.
  std::int64_t tokens() const { return static_cast<std::int64_t>(before_.size() + after_.size()); }
  // Of tokens that are to have `before` in front of them and `after` behind them as many as there
  // is room for among `most`; 0: all. Throws DataError, which begins with `place`, where there is
  // room for none.
  std::int64_t room(std::int64_t most, std::string_view place) const;

 private:
  std::vector<std::int64_t> before_;
  std::vector<std::int64_t> after_;
};

// The tokens of a text with those of the frame; at most `longest` (0: any), of which those of the
// frame stay. Throws as SpecialTokenTemplate::room does.
std::vector<std::int64_t> add_special_tokens(const SpecialTokenTemplate& frame,
                                             std::vector<std::int64_t> ids,
                                             std::string_view place,
                                             std::int64_t longest = 0);

// The same of a text. Throws as Tokenizer::encode, and DataError where the tokenizer sees nothing
// in the text.
std::vector<std::int64_t> framed_tokens(const Tokenizer& tokenizer,
                                        const SpecialTokenTemplate& frame,
                                        std::string_view text,
                                        std::string_view place,
                                        std::int64_t longest = 0);

}  // namespace longspan
