#include "framework/data/tokenization/special_token_template.h"

#include <limits>
#include <utility>

#include "framework/core/error.h"
#include "framework/tokenizers/json_tokenizer.h"

namespace longspan {

SpecialTokenTemplate::SpecialTokenTemplate(const Tokenizer& tokenizer) {
  const JsonTokenizer* const model = tokenizer.json_tokenizer();
  if (model == nullptr) return;
  before_ = model->before();
  after_ = model->after();
}

SpecialTokenTemplate SpecialTokenTemplate::without_end(std::int64_t end) const {
  SpecialTokenTemplate frame = *this;
  if (!after_.empty() && after_.back() == end) frame.after_.pop_back();
  return frame;
}

std::int64_t SpecialTokenTemplate::room(std::int64_t most, std::string_view place) const {
  if (most == 0) return std::numeric_limits<std::int64_t>::max();
  if (most > tokens()) return most - tokens();
  throw DataError(
      "{}: data.max_length = {} leaves no tokens for the text next to {} special tokens",
      place,
      most,
      tokens());
}

std::vector<std::int64_t> add_special_tokens(const SpecialTokenTemplate& frame,
                                             std::vector<std::int64_t> ids,
                                             std::string_view place,
                                             std::int64_t longest) {
  const std::int64_t room = frame.room(longest, place);
  if (std::ssize(ids) > room) ids.resize(static_cast<std::size_t>(room));
  ids.insert(ids.begin(), frame.before().begin(), frame.before().end());
  ids.insert(ids.end(), frame.after().begin(), frame.after().end());
  return ids;
}

std::vector<std::int64_t> framed_tokens(const Tokenizer& tokenizer,
                                        const SpecialTokenTemplate& frame,
                                        std::string_view text,
                                        std::string_view place,
                                        std::int64_t longest) {
  std::vector<std::int64_t> ids = tokenizer.encode(text, place);
  if (ids.empty()) throw DataError("{}: expected tokens, found none after tokenization", place);
  return add_special_tokens(frame, std::move(ids), place, longest);
}

}  // namespace longspan
