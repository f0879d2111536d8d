#include "framework/tokenizers/json_tokenizer.h"

#include <mutex>

#include "framework/core/error.h"
#include "framework/core/json_bounds.h"
#include "framework/core/option_text.h"
#include "framework/tokenizers/added_tokens.h"
#include "framework/tokenizers/characters.h"
#include "framework/tokenizers/decoders.h"
#include "framework/tokenizers/pre_tokenizers.h"
#include "framework/tokenizers/token_template.h"
#include "framework/tokenizers/word_cache.h"

namespace longspan {
namespace {

constexpr std::size_t most_json_bytes = std::size_t{1} << 30;
constexpr std::size_t longest_text = std::size_t{1} << 31;  // bytes of one word at most

nlohmann::json parse(const std::string& text, const std::string& place) {
  if (text.size() > most_json_bytes)
    throw DataError("{}: has {} bytes; a tokenizer.json is needed", place, text.size());
  require_json_bounds(text, place, false);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw DataError("{}: is not JSON: {}", place, shortened(error.what(), 200));
  }
}

}  // namespace

struct JsonTokenizer::Loaded {
  Loaded(std::string bytes, const std::string& place);

  std::string bytes;
  TextNormalizer normalizer;
  PreTokenizer pre_tokenizer;
  ReadModel model;
  std::vector<AddedToken> added;
  std::vector<std::string> texts;  // of ids
  std::vector<bool> special;       // of ids
  TokenDecoder decoder;
  TokenTemplate around;
  std::unique_ptr<const AddedTokenFinder> raw_finder;
  std::unique_ptr<const AddedTokenFinder> normalized_finder;

  // Caches that no thread has.
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<WordCache>> caches;

  std::unique_ptr<WordCache> take_cache() const {
    const std::lock_guard lock(mutex);
    if (caches.empty()) return std::make_unique<WordCache>();
    auto cache = std::move(caches.back());
    caches.pop_back();
    return cache;
  }
  void give_cache(std::unique_ptr<WordCache> cache) const {
    const std::lock_guard lock(mutex);
    caches.push_back(std::move(cache));
  }

 private:
  void add_tokens(const JsonPlace& json);
};

JsonTokenizer::Loaded::Loaded(std::string text, const std::string& place) : bytes(std::move(text)) {
  const nlohmann::json parsed = parse(bytes, place);
  const JsonPlace file(parsed, place);
  normalizer = read_normalizer(file["normalizer"]);
  const JsonPlace cuts = file["pre_tokenizer"];
  ReadPreTokenizer cut = read_pre_tokenizer(cuts, true);
  model = read_word_model(file["model"], cut.ends_in_bytes);
  if (cut.ends_in_bytes && !model.model->takes_bytes()) cut = read_pre_tokenizer(cuts, false);
  pre_tokenizer = std::move(cut.cut);
  decoder = read_token_decoder(file["decoder"]);
  around = read_token_template(file["post_processor"]);
  add_tokens(file["added_tokens"]);
  for (const auto* const ids : {&around.before, &around.after})
    for (const std::int64_t id : *ids)
      if (id >= static_cast<std::int64_t>(texts.size()))
        throw DataError(
            "{}.post_processor: found id {}; wanted one below {}", place, id, texts.size());
}

void JsonTokenizer::Loaded::add_tokens(const JsonPlace& json) {
  added = read_added_tokens(json);
  texts = model.vocabulary.texts;
  for (std::size_t i = 0; i < added.size(); ++i) {
    const AddedToken& token = added[i];
    const auto id = static_cast<std::size_t>(token.id);
    const std::int32_t known = model.vocabulary.ids.find(token.content);
    if (known >= 0 && known != token.id)
      json[i]["id"].refuse(fmt::format("{}, as the vocabulary has it", known));
    // The package numbers what is behind a gap anew.
    if (id > texts.size())
      json[i]["id"].refuse(fmt::format("at most {}, the next id", texts.size()));
    if (id == texts.size()) texts.emplace_back();
    if (!texts[id].empty() && texts[id] != token.content)
      json[i].refuse(fmt::format("another id: {} is that of {}", id, in_quotes(texts[id])));
    texts[id] = token.content;
    model.vocabulary.ids.set(token.content, token.id);
  }
  special.resize(texts.size());
  for (const AddedToken& token : added)
    if (token.is_special) special[static_cast<std::size_t>(token.id)] = true;
  raw_finder = std::make_unique<AddedTokenFinder>(added, false, normalizer);
  normalized_finder = std::make_unique<AddedTokenFinder>(added, true, normalizer);
}

// One text on its way to tokens.
class JsonTokenizer::Encoding {
 public:
  Encoding(const Loaded& loaded, const TokenSink& sink)
      : loaded_(loaded), sink_(sink), cache_(loaded.take_cache()) {}
  Encoding(const Encoding&) = delete;
  Encoding& operator=(const Encoding&) = delete;
  ~Encoding() { loaded_.give_cache(std::move(cache_)); }

  void add(std::string_view text) {
    cut_at_tokens(*loaded_.raw_finder, TextPiece{text}, [this](const TextPiece& piece) {
      if (!loaded_.normalizer) return add_normalized(piece);
      const AlignedText normalized = loaded_.normalizer(piece);
      if (!normalized.text().empty()) add_normalized(normalized.piece());
    });
  }

 private:
  template <typename F>
  void cut_at_tokens(const AddedTokenFinder& finder, const TextPiece& piece, F&& f) {
    if (finder.is_empty()) {
      if (!piece.text.empty()) f(piece);
      return;
    }
    finder.cut(piece.text, [&](std::size_t from, std::size_t to, const AddedToken* token) {
      const TextPiece part = piece.part(from, to);
      if (token != nullptr)
        give({token->id, part.end_of(part.text.size())});
      else
        f(part);
    });
  }
  void add_normalized(const TextPiece& piece) {
    cut_at_tokens(*loaded_.normalized_finder, piece, [this](const TextPiece& part) {
      if (loaded_.pre_tokenizer)
        loaded_.pre_tokenizer(part, [this](const TextPiece& word) { add_word(word); });
      else
        add_word(part);
    });
  }
  void add_word(const TextPiece& word) {
    const WordModel& model = *loaded_.model.model;
    if (word.text.size() <= WordCache::longest_word && model.is_worth_remembering())
      return give_all(word, cache_->encode(word.text, model));
    if (word.text.size() > longest_text)
      throw DataError("a word of {} bytes is too long", word.text.size());
    tokens_.clear();
    model.encode(word.text, tokens_);
    give_all(word, tokens_);
  }
  void give_all(const TextPiece& word, std::span<const WordToken> tokens) {
    for (const WordToken& token : tokens) give({token.id, word.end_of(token.end)});
  }
  void give(JsonToken token) {
    end_ = token.end = std::max(token.end, end_);
    sink_(token);
  }

  const Loaded& loaded_;
  const TokenSink& sink_;
  std::unique_ptr<WordCache> cache_;
  std::vector<WordToken> tokens_;
  std::int64_t end_ = 0;
};

JsonTokenizer::JsonTokenizer(std::string json, const std::string& place)
    : loaded_(std::make_shared<const Loaded>(std::move(json), place)) {}

const std::string& JsonTokenizer::json() const { return loaded_->bytes; }

std::int64_t JsonTokenizer::vocabulary() const {
  return static_cast<std::int64_t>(loaded_->texts.size());
}

const std::string& JsonTokenizer::token(std::int64_t id) const {
  static const std::string none;
  return id >= 0 && id < vocabulary() ? loaded_->texts[static_cast<std::size_t>(id)] : none;
}

std::int64_t JsonTokenizer::id_of(std::string_view token) const {
  return loaded_->model.vocabulary.ids.find(token);
}

bool JsonTokenizer::is_special(std::int64_t id) const {
  return id >= 0 && id < vocabulary() && loaded_->special[static_cast<std::size_t>(id)];
}

const std::vector<std::int64_t>& JsonTokenizer::before() const { return loaded_->around.before; }

const std::vector<std::int64_t>& JsonTokenizer::after() const { return loaded_->around.after; }

void JsonTokenizer::encode(std::string_view text,
                           std::string_view place,
                           const TokenSink& sink) const {
  const std::size_t valid = valid_utf8_bytes(text);
  if (valid != text.size()) throw DataError("{}: byte {}: is not UTF-8", place, valid);
  try {
    Encoding(*loaded_, sink).add(text);
  } catch (const DataError& error) {
    throw DataError("{}: {}", place, error.what());
  }
}

std::vector<std::int64_t> JsonTokenizer::ids(std::string_view text,
                                             std::string_view place,
                                             bool with_template) const {
  std::vector<std::int64_t> result;
  if (with_template) result = before();
  encode(text, place, [&result](const JsonToken& token) { result.push_back(token.id); });
  if (with_template) result.insert(result.end(), after().begin(), after().end());
  return result;
}

std::string JsonTokenizer::decode(std::span<const std::int64_t> ids, bool without_special) const {
  std::vector<std::string> tokens;
  for (const std::int64_t id : ids)
    if (!token(id).empty() && !(without_special && is_special(id))) tokens.push_back(token(id));
  const bool has_decoder = static_cast<bool>(loaded_->decoder);
  if (has_decoder) tokens = loaded_->decoder(std::move(tokens));
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && !has_decoder) text += ' ';
    text += tokens[i];
  }
  return text;
}

}  // namespace longspan
