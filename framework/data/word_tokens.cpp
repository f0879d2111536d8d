#include "framework/data/word_tokens.h"

#include <string>

#include "framework/core/error.h"

namespace longspan {

WordTokens::WordTokens(const Tokenizer& tokenizer)
    : tokenizer_(tokenizer),
      space_is_a_token_(tokenizer.kind() != TokenizerKind::sentencepiece),
      has_space_(tokenizer.kind() != TokenizerKind::characters || tokenizer.id_of(U' ') >= 0) {}

std::size_t WordTokens::add(std::string_view word,
                            std::string_view place,
                            std::vector<std::int64_t>& tokens) const {
  const bool with_space = has_space_ && !tokens.empty();
  const auto ids = tokenizer_.encode((with_space ? " " : "") + std::string(word), place);
  const std::size_t first = tokens.size();
  tokens.insert(tokens.end(), ids.begin(), ids.end());
  if (ids.empty()) throw DataError("{}: the tokenizer sees nothing in the word", place);
  return first + (with_space && space_is_a_token_ ? 1 : 0);
}

}  // namespace longspan
