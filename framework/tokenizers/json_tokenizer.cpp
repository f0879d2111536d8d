#include "framework/tokenizers/json_tokenizer.h"

#include <algorithm>
#include <mutex>
#include <numeric>

#include "framework/core/error.h"
#include "framework/core/json_bounds.h"
#include "framework/core/quote.h"
#include "framework/tokenizers/characters.h"
#include "framework/tokenizers/chunk_boundaries.h"
#include "framework/tokenizers/normalizers.h"
#include "framework/tokenizers/pattern.h"
#include "framework/tokenizers/pre_tokenizers.h"
#include "framework/tokenizers/text_parts.h"

namespace longspan {
namespace {

constexpr std::size_t max_json_bytes = std::size_t{1} << 30;
constexpr std::size_t max_text_length = std::size_t{1} << 31;  // maximum bytes of one word
// Increment with every change that may affect the ids of a text.
constexpr int encoding_version = 2;
constexpr std::size_t part_bytes = std::size_t{1} << 16;  // minimum bytes of a text part

nlohmann::json parse(const std::string& text, const std::string& place) {
  if (text.size() > max_json_bytes)
    throw DataError("{}: expected a tokenizer.json, found {} bytes", place, text.size());
  check_json_limits(text, place, false);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw DataError("{}: invalid JSON: {}", place, truncated(error.what(), 200));
  }
}

std::string run_together(const std::vector<std::string>& texts) {
  return std::accumulate(texts.begin(), texts.end(), std::string());
}

}  // namespace

struct JsonTokenizer::Loaded {
  Loaded(std::string bytes, const std::string& place);

  std::string bytes;
  TextNormalizer normalizer;
  TextNormalizer later_normalizer;  // of all parts of a text but the first
  PreTokenizer pre_tokenizer;
  ReadModel model;
  std::vector<AddedToken> added;
  std::vector<std::string> texts;  // of ids
  std::vector<bool> special;       // of ids
  TokenDecoder decoder;
  TokenTemplate around;
  std::unique_ptr<const AddedTokenFinder> raw_finder;
  std::unique_ptr<const AddedTokenFinder> normalized_finder;
  bool reads_by_parts = false;       // text between added tokens can be encoded in parts
  bool full_reads_by_parts = false;  // texts with added tokens can be encoded in parts

  // Caches not in use by a thread.
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<WordCache>> caches;

  std::unique_ptr<WordCache> take_cache() const {
    const std::lock_guard lock(mutex);
    if (caches.empty()) return std::make_unique<WordCache>();
    auto cache = std::move(caches.back());
    caches.pop_back();
    return cache;
  }
  void set_cache(std::unique_ptr<WordCache> cache) const {
    const std::lock_guard lock(mutex);
    caches.push_back(std::move(cache));
  }

 private:
  void add_tokens(const JsonCursor& json);
  bool cuts_equally(PartCut cut) const;
  void find_parts(const JsonCursor& file);
};

JsonTokenizer::Loaded::Loaded(std::string text, const std::string& place) : bytes(std::move(text)) {
  const nlohmann::json parsed = parse(bytes, place);
  const JsonCursor file(parsed, place);
  normalizer = read_normalizer(file["normalizer"]);
  const JsonCursor cuts = file["pre_tokenizer"];
  ReadPreTokenizer cut = read_pre_tokenizer(cuts, true);
  model = read_word_model(file["model"], cut.ends_in_bytes);
  if (cut.ends_in_bytes && !model.model->supports_bytes()) cut = read_pre_tokenizer(cuts, false);
  pre_tokenizer = std::move(cut.cut);
  decoder = read_token_decoder(file["decoder"]);
  around = read_token_template(file["post_processor"]);
  add_tokens(file["added_tokens"]);
  find_parts(file);
  for (const auto* const ids : {&around.before, &around.after})
    for (const std::int64_t id : *ids)
      if (id >= static_cast<std::int64_t>(texts.size()))
        throw DataError(
            "{}.post_processor: expected an id below {}, found {}", place, texts.size(), id);
}

void JsonTokenizer::Loaded::add_tokens(const JsonCursor& json) {
  added = read_added_tokens(json);
  texts = model.vocabulary.texts;
  for (std::size_t i = 0; i < added.size(); ++i) {
    const AddedToken& token = added[i];
    const auto id = static_cast<std::size_t>(token.id);
    const std::int32_t known = model.vocabulary.ids.find(token.content);
    if (known >= 0 && known != token.id)
      json[i]["id"].throw_data_error(fmt::format("{}, as in the vocabulary", known));
    // The package renumbers the tokens after a gap.
    if (id > texts.size())
      json[i]["id"].throw_data_error(fmt::format("at most {}, the next id", texts.size()));
    if (id == texts.size()) texts.emplace_back();
    if (!texts[id].empty() && texts[id] != token.content)
      json[i].throw_data_error(
          fmt::format("another id, as {} belongs to {}", id, quote(texts[id])));
    texts[id] = token.content;
    model.vocabulary.ids.set(token.content, token.id);
  }
  special.resize(texts.size());
  for (const AddedToken& token : added)
    if (token.is_special) special[static_cast<std::size_t>(token.id)] = true;
  raw_finder = std::make_unique<AddedTokenFinder>(added, false, normalizer);
  normalized_finder = std::make_unique<AddedTokenFinder>(added, true, normalizer);
}

// Tests on sample texts whether parts yield the pieces of the complete text. Steps that each
// support parts may not do so in sequence.
bool JsonTokenizer::Loaded::cuts_equally(PartCut cut) const {
  const auto add_pieces =
      [this](const TextNormalizer& first, const TextPiece& text, std::vector<std::string>& pieces) {
        const AlignedText normalized = first ? first(text) : AlignedText(text);
        const auto add = [&pieces](const TextPiece& piece) { pieces.emplace_back(piece.text); };
        if (pre_tokenizer)
          pre_tokenizer(first ? normalized.piece() : text, add);
        else
          add(normalized.piece());
      };
  for (const std::string_view text :
       {"x y", "x. (y", "Ab  1 2", "\u4e2d\u6587 \u4e2d", "x''\" ' y"}) {
    const std::size_t end = blank_to_cut_at(text, 1);
    std::vector<std::string> whole;
    std::vector<std::string> parts;
    add_pieces(normalizer, TextPiece{text}, whole);
    add_pieces(normalizer, TextPiece{text.substr(0, end)}, parts);
    const std::size_t first = parts.size();
    add_pieces(later_normalizer, TextPiece{text}.part(end, text.size()), parts);
    if (cut == PartCut::keeps) {
      if (parts.size() == first || !parts[first].starts_with(space_letter)) return false;
      if (run_together(whole) != run_together(parts)) return false;
    } else if (whole != parts) {
      return false;
    }
  }
  return true;
}

void JsonTokenizer::Loaded::find_parts(const JsonCursor& file) {
  const auto later = normalizer_of_later_parts(file["normalizer"].value());
  const PartCut cut = cut_of_parts(file["pre_tokenizer"].value());
  if (!later || cut == PartCut::depends) return;
  // If no step splits there, the model must.
  if (cut == PartCut::keeps && !model.model->cuts_words()) return;
  const auto stays_in_a_part = [](const AddedToken& token) {
    return !token.strips_right && token.content.find(' ') == std::string::npos &&
           token.content.find(space_letter) == std::string::npos;
  };
  const auto stays = [&](bool normalized) {
    return std::ranges::all_of(added, [&](const AddedToken& token) {
      return token.is_normalized != normalized || stays_in_a_part(token);
    });
  };
  later_normalizer = read_normalizer(JsonCursor(*later, "the normalizer of later parts"));
  reads_by_parts = stays(true) && cuts_equally(cut);
  full_reads_by_parts = reads_by_parts && stays(false);
}

// The encoding of one text.
class JsonTokenizer::Encoding {
 public:
  Encoding(const Loaded& loaded, const TokenSink& sink)
      : loaded_(loaded), sink_(sink), cache_(loaded.take_cache()) {}
  Encoding(const Encoding&) = delete;
  Encoding& operator=(const Encoding&) = delete;
  ~Encoding() { loaded_.set_cache(std::move(cache_)); }

  void add(const TextPiece& text) {
    end_ = text.begin;
    const bool is_later = text.begin > 0;
    cut_at_tokens(*loaded_.raw_finder, text, [&](const TextPiece& piece) {
      add_section(piece, is_later && piece.begin == text.begin);
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
  // Encodes the text between two tokens, or its rest.
  void add_section(const TextPiece& section, bool is_later) {
    std::size_t begin = 0;
    while (begin < section.text.size()) {
      std::size_t end = section.text.size();
      if (loaded_.reads_by_parts && end - begin > part_bytes)
        end = std::min(end, blank_to_cut_at(section.text, begin + part_bytes));
      add_part(section.part(begin, end),
               is_later || begin > 0 ? loaded_.later_normalizer : loaded_.normalizer);
      begin = end;
    }
  }
  void add_part(const TextPiece& part, const TextNormalizer& normalizer) {
    if (!normalizer) return add_normalized(part);
    const AlignedText normalized = normalizer(part);
    if (!normalized.text().empty()) add_normalized(normalized.piece());
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
    if (!model.cuts_words()) return add_part_of_word(word);
    for (std::size_t begin = 0; begin < word.text.size();) {
      const std::size_t end = begin + model.part_of(word.text.substr(begin));
      add_part_of_word(word.part(begin, end));
      begin = end;
    }
  }
  void add_part_of_word(const TextPiece& word) {
    const WordModel& model = *loaded_.model.model;
    if (word.text.size() <= WordCache::max_word_length && model.is_worth_remembering())
      return emit_all(word, cache_->encode(word.text, model));
    if (word.text.size() > max_text_length)
      throw DataError("a word of {} bytes is too long", word.text.size());
    tokens_.clear();
    model.encode(word.text, tokens_);
    emit_all(word, tokens_);
  }
  void emit_all(const TextPiece& word, std::span<const WordToken> tokens) {
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

std::string JsonTokenizer::version() {
  return fmt::format("{} {} {}", encoding_version, character_version(), pattern_version());
}

const std::string& JsonTokenizer::json() const { return loaded_->bytes; }

std::int64_t JsonTokenizer::vocabulary() const {
  return static_cast<std::int64_t>(loaded_->texts.size());
}

bool JsonTokenizer::supports_chunking() const { return loaded_->full_reads_by_parts; }

std::size_t JsonTokenizer::chunk_boundary(std::string_view text, std::size_t least) const {
  // The normalizer treats the text after an added token as the beginning of a text.
  const auto follows_token = [&](std::size_t at) {
    return std::ranges::any_of(loaded_->added, [&](const AddedToken& token) {
      return text.substr(0, at).ends_with(token.content);
    });
  };
  std::size_t at = blank_to_cut_at(text, least);
  while (at != std::string_view::npos && follows_token(at)) at = blank_to_cut_at(text, at + 1);
  return at;
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
                           const TokenSink& sink,
                           std::int64_t begin) const {
  const std::size_t valid = valid_utf8_bytes(text);
  if (valid != text.size())
    throw DataError("{}: byte {}: expected UTF-8", place, begin + static_cast<std::int64_t>(valid));
  require(begin == 0 || loaded_->full_reads_by_parts,
          "the tokenizer does not support encoding a "
          "document in parts");
  try {
    Encoding(*loaded_, sink).add(TextPiece{text, begin});
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
