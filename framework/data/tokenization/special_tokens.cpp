#include "framework/data/tokenization/special_tokens.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/data/tokenization/sentencepiece_model.h"
#include "framework/options/options.h"
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

namespace {

bool has_names(TokenizerKind kind) {
  return kind == TokenizerKind::tokenizer_json || kind == TokenizerKind::ids;
}

// Returns -1 without a name. A tokenizer of ids names an id by its number.
std::int64_t id_of(const Tokenizer& tokenizer,
                   const std::optional<std::string>& name,
                   const char* key) {
  if (!name) return -1;
  std::int64_t id = -1;
  if (const JsonTokenizer* const model = tokenizer.json_tokenizer()) {
    id = model->id_of(*name);
  } else {
    const auto [end, error] = std::from_chars(name->data(), name->data() + name->size(), id);
    const bool is_id = error == std::errc() && end == name->data() + name->size();
    if (!is_id || id >= tokenizer.vocabulary()) id = -1;
  }
  if (id < 0) throw ConfigurationError("{}: the tokenizer has no token {}", key, quote(*name));
  return id;
}

void take_tokens(const Tokenizer& tokenizer, const SpecialTokenNames& named, SpecialTokenIds& ids) {
  ids.begin = id_of(tokenizer, named.begin, "data.tokenizer.decoder_start_token");
  ids.end = id_of(tokenizer, named.end, "data.tokenizer.eos_token");
  const JsonTokenizer* const model = tokenizer.json_tokenizer();
  if (ids.end < 0 && model != nullptr && !model->after().empty()) ids.end = model->after().back();
  if (const std::int64_t first = id_of(tokenizer, named.first, "data.tokenizer.forced_bos_token");
      first >= 0)
    ids.first = first;
}

}  // namespace

void declare(OptionTable& table, SpecialTokenNames& tokens) {
  table.add("data.tokenizer.decoder_start_token",
            tokens.begin,
            "token, with data.tokenizer.type: none its id, that starts the decoder input (</s> in "
            "BART, <pad> in T5); none: an extra id after those of the tokenizer",
            affects_weights(),
            only_with(is("run.task", {"translation"})),
            only_with(is("data.tokenizer.type", {"huggingface", "none"})));
  table.add("data.tokenizer.eos_token",
            tokens.end,
            "token or id that ends a target; none: the last token of the tokenizer's template, or "
            "an extra id if it has none",
            affects_weights(),
            only_with(is("run.task", {"translation"})),
            only_with(is("data.tokenizer.type", {"huggingface", "none"})));
  table.add("data.tokenizer.forced_bos_token",
            tokens.first,
            "token or id that starts every output and is removed from its text "
            "(forced_bos_token_id in transformers); none: no such token",
            only_with(is("run.task", {"translation"})),
            only_with(is("data.tokenizer.type", {"huggingface", "none"})));
}

SpecialTokenIds sentence_ids(const Tokenizer& tokenizer, const SpecialTokenNames& named) {
  SpecialTokenIds ids{.begin = -1, .end = -1, .vocabulary = tokenizer.vocabulary()};
  if (const SentencePieceModel* model = tokenizer.subword_model()) {
    ids.begin = model->sentence_begin();
    ids.end = model->sentence_end();
  }
  if (has_names(tokenizer.kind())) {
    take_tokens(tokenizer, named, ids);
    ids.allows_bos = ids.begin >= 0;
  }
  if (ids.begin < 0) ids.begin = ids.vocabulary++;
  if (ids.end < 0) ids.end = ids.vocabulary++;
  return ids;
}

std::int64_t max_sentence_ids(TokenizerKind kind, const SpecialTokenNames& named) {
  const bool reads_names = has_names(kind);
  return (reads_names && named.begin ? 0 : 1) + (reads_names && named.end ? 0 : 1);
}

std::string decode_sentence(const Tokenizer& tokenizer,
                            std::span<const std::int64_t> ids,
                            const SpecialTokenNames& named) {
  const SpecialTokenIds special = sentence_ids(tokenizer, named);
  std::vector<std::int64_t> text;
  for (const std::int64_t id : ids) {
    if (id == special.end) break;
    if (id != special.begin) text.push_back(id);
  }
  const JsonTokenizer* const model = tokenizer.json_tokenizer();
  if (model == nullptr) return tokenizer.decode(text);
  for (const std::int64_t id : text)
    if (id < 0 || id >= model->vocabulary())
      throw DataError(
          "token {} is out of range for the vocabulary of {} ids", id, model->vocabulary());
  std::string line = model->decode(text, true);
  std::ranges::replace(line, '\n', ' ');
  return line;
}

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
