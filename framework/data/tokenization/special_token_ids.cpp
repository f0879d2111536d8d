#include "framework/data/tokenization/special_token_ids.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/data/tokenization/sentencepiece_model.h"
#include "framework/options/options.h"
#include "framework/tokenizers/json_tokenizer.h"

namespace longspan {
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

void declare(OptionTable& table, SpecialTokenNames& tokens, const TokenizerKind& kind) {
  table.add(
      "data.tokenizer.decoder_start_token",
      tokens.begin,
      "token, with data.tokenizer.type: none its id, that starts the decoder input (</s> in BART, "
      "<pad> in T5); none: an extra id after those of the tokenizer. Only with run.task: "
      "translation and data.tokenizer.type: huggingface or none",
      affects_weights());
  table.add("data.tokenizer.eos_token",
            tokens.end,
            "token or id that ends a target; none: the last token of the tokenizer's template, or "
            "an extra id if it has none. Only with run.task: translation and data.tokenizer.type: "
            "huggingface or none",
            affects_weights());
  table.add("data.tokenizer.forced_bos_token",
            tokens.first,
            "token or id that starts every output and is removed from its text "
            "(forced_bos_token_id in transformers); none: no such token. Only with run.task: "
            "translation and data.tokenizer.type: huggingface or none");
  for (const char* const key : {"data.tokenizer.decoder_start_token",
                                "data.tokenizer.eos_token",
                                "data.tokenizer.forced_bos_token"})
    table.warn(key, [&kind]() -> std::string {
      return has_names(kind) ? "" : fmt::format("data.tokenizer.type is {}", name_of(kind));
    });
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

}  // namespace longspan
