#include "framework/data/tokenization/word_tokens.h"

#include <string>

#include "framework/core/error.h"

namespace longspan {

WordTokens::WordTokens(const Tokenizer& tokenizer)
    : tokenizer_(tokenizer),
      frame_(tokenizer),
      space_is_a_token_(tokenizer.kind() == TokenizerKind::bytes ||
                        tokenizer.kind() == TokenizerKind::characters),
      has_space_(tokenizer.kind() != TokenizerKind::characters || tokenizer.id_of(U' ') >= 0) {}

void WordTokens::begin(std::vector<std::int64_t>& tokens) const {
  tokens.insert(tokens.end(), frame_.before().begin(), frame_.before().end());
}

void WordTokens::end(std::vector<std::int64_t>& tokens) const {
  tokens.insert(tokens.end(), frame_.after().begin(), frame_.after().end());
}

std::size_t WordTokens::add(std::string_view word,
                            std::string_view place,
                            std::vector<std::int64_t>& tokens) const {
  const bool with_space = has_space_ && tokens.size() > frame_.before().size();
  const auto ids = tokenizer_.encode((with_space ? " " : "") + std::string(word), place);
  const std::size_t first = tokens.size();
  tokens.insert(tokens.end(), ids.begin(), ids.end());
  if (ids.empty())
    throw DataError("{}: expected tokens, found none after tokenization of the word", place);
  return first + (with_space && space_is_a_token_ ? 1 : 0);
}

}  // namespace longspan
