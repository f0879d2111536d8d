#include "framework/tokenizers/tokenizer_trainer.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/tokenizers/characters.h"
#include "framework/tokenizers/chunk_boundaries.h"
#include "framework/tokenizers/normalizers.h"
#include "framework/tokenizers/pre_tokenizers.h"

namespace longspan {

namespace {

using nlohmann::ordered_json;

constexpr const char* unknown_piece = "[UNK]";
constexpr const char* continuing = "##";
constexpr int max_characters_of_a_word = 100;
constexpr char no_byte_of_text = '\xFF';

nlohmann::json byte_level(bool cuts) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", cuts}};
}

nlohmann::json normalizer_of(const TokenizerRules& rules) {
  if (rules.kind == TrainedKind::byte_pairs) return nullptr;
  return {{"type", "BertNormalizer"},
          {"clean_text", true},
          {"handle_chinese_chars", true},
          {"strip_accents", nullptr},
          {"lowercase", rules.lowercase}};
}

nlohmann::json pre_tokenizer_of(const TokenizerRules& rules) {
  if (rules.kind == TrainedKind::word_pieces) return {{"type", "BertPreTokenizer"}};
  if (rules.cut == WordCut::gpt2) return byte_level(true);
  const nlohmann::json split = {{"type", "Split"},
                                {"pattern", {{"Regex", llama3_expression}}},
                                {"behavior", "Isolated"},
                                {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {split, byte_level(false)}}};
}

nlohmann::json decoder_of(const TokenizerRules& rules) {
  if (rules.kind == TrainedKind::byte_pairs) return byte_level(true);
  return {{"type", "WordPiece"}, {"prefix", continuing}, {"cleanup", true}};
}

// BERT's template, if its tokens are present.
ordered_json post_processor_of(const TokenizerRules& rules) {
  if (rules.kind == TrainedKind::byte_pairs) return byte_level(true);
  const auto begin = std::ranges::find(rules.special, "[CLS]");
  const auto end = std::ranges::find(rules.special, "[SEP]");
  if (begin == rules.special.end() || end == rules.special.end()) return nullptr;
  const auto token = [](const char* name, int type) -> ordered_json {
    return {{"SpecialToken", {{"id", name}, {"type_id", type}}}};
  };
  const auto text = [](const char* name, int type) -> ordered_json {
    return {{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  const auto meaning = [&rules](auto place) -> ordered_json {
    return {{"id", *place},
            {"ids", ordered_json::array({place - rules.special.begin()})},
            {"tokens", ordered_json::array({*place})}};
  };
  return {{"type", "TemplateProcessing"},
          {"single", {token("[CLS]", 0), text("A", 0), token("[SEP]", 0)}},
          {"pair",
           {token("[CLS]", 0), text("A", 0), token("[SEP]", 0), text("B", 1), token("[SEP]", 1)}},
          {"special_tokens", {{"[CLS]", meaning(begin)}, {"[SEP]", meaning(end)}}}};
}

ordered_json added_tokens_of(const TokenizerRules& rules) {
  auto tokens = ordered_json::array();
  for (std::size_t id = 0; id < rules.special.size(); ++id)
    tokens.push_back({{"id", id},
                      {"content", rules.special[id]},
                      {"single_word", false},
                      {"lstrip", false},
                      {"rstrip", false},
                      {"normalized", false},
                      {"special", true}});
  return tokens;
}

TokenizerRules checked(TokenizerRules rules) {
  if (rules.kind == TrainedKind::word_pieces &&
      std::ranges::find(rules.special, unknown_piece) == rules.special.end())
    rules.special.insert(rules.special.begin(), unknown_piece);
  std::set<std::string> seen;
  for (const std::string& token : rules.special) {
    if (token.empty() || valid_utf8_bytes(token) != token.size())
      throw ConfigurationError("special token {}: expected a UTF-8 string", quote(token));
    if (!seen.insert(token).second)
      throw ConfigurationError("duplicate special token {}", quote(token));
  }
  return rules;
}

// The symbols to merge: the initial ones, and words as their ids.
class Symbols {
 public:
  virtual ~Symbols() = default;
  const std::vector<std::string>& texts() const { return texts_; }
  virtual void append_ids(std::string_view word, std::vector<std::int32_t>& ids) const = 0;
  // Returns a symbol as written in the vocabulary.
  virtual std::string written(const std::string& symbol) const { return symbol; }

 protected:
  // Returns the id of an existing or a new symbol.
  std::int32_t add(const std::string& text) {
    const std::int32_t found = ids_.find(text);
    if (found >= 0) return found;
    const auto id = static_cast<std::int32_t>(texts_.size());
    ids_.set(text, id);
    texts_.push_back(text);
    return id;
  }
  std::int32_t find(std::string_view text) const { return ids_.find(text); }

 private:
  std::vector<std::string> texts_;
  TokenTable ids_;
};

// All bytes, ordered by their byte-level characters.
class ByteSymbols : public Symbols {
 public:
  explicit ByteSymbols(const std::vector<std::string>& special) {
    // A special token in byte-level characters equals those bytes; any other one cannot occur in
    // text.
    for (const std::string& token : special)
      add(from_byte_letters(token).value_or(no_byte_of_text + token));
    std::array<std::size_t, 256> bytes{};
    std::iota(bytes.begin(), bytes.end(), std::size_t{0});
    std::ranges::sort(bytes, {}, [](std::size_t byte) { return byte_to_unicode()[byte]; });
    for (const std::size_t byte : bytes) ids_[byte] = add(std::string(1, static_cast<char>(byte)));
  }
  void append_ids(std::string_view word, std::vector<std::int32_t>& ids) const override {
    for (const char byte : word) ids.push_back(ids_[static_cast<unsigned char>(byte)]);
  }
  std::string written(const std::string& symbol) const override {
    // The marker occurs in no other symbol, except the one of its byte.
    const bool is_special = symbol.size() > 1 && symbol.starts_with(no_byte_of_text);
    return is_special ? symbol.substr(1) : to_byte_letters(symbol);
  }

 private:
  std::array<std::int32_t, 256> ids_{};
};

// The words' characters by code point, followed by their continuation forms.
class CharacterSymbols : public Symbols {
 public:
  CharacterSymbols(const std::vector<std::string>& special, const std::vector<CountedWord>& words) {
    for (const std::string& token : special) add(token);
    std::set<std::string> all;  // UTF-8 byte order is code point order
    std::set<std::string> later;
    for (const CountedWord& word : words)
      for_each_character(word.text, [&](std::string_view letter, bool is_first) {
        all.emplace(letter);
        if (!is_first) later.emplace(letter);
      });
    for (const std::string& letter : all) add(letter);
    for (const std::string& letter : later) add(continuing + letter);
  }
  void append_ids(std::string_view word, std::vector<std::int32_t>& ids) const override {
    std::string text;
    for_each_character(word, [&](std::string_view letter, bool is_first) {
      text.assign(is_first ? "" : continuing).append(letter);
      ids.push_back(find(text));
    });
  }

 private:
  template <typename F>
  static void for_each_character(std::string_view word, F&& f) {
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t width = next_character(word.substr(at)).width;
      f(word.substr(at, width), at == 0);
      at += width;
    }
  }
};

ordered_json model_of(const TokenizerRules& rules,
                      const Symbols& symbols,
                      const std::vector<std::string>& texts,
                      const std::vector<PairMerge>& merges) {
  ordered_json vocabulary = ordered_json::object();
  std::vector<std::string> written;
  for (std::size_t id = 0; id < texts.size(); ++id) {
    written.push_back(symbols.written(texts[id]));
    // Appends directly: keys are unique, and a search for each would be quadratic.
    vocabulary.get_ref<ordered_json::object_t&>().push_back({written.back(), ordered_json(id)});
  }
  if (rules.kind == TrainedKind::word_pieces)
    return {{"type", "WordPiece"},
            {"unk_token", unknown_piece},
            {"continuing_subword_prefix", continuing},
            {"max_input_chars_per_word", max_characters_of_a_word},
            {"vocab", std::move(vocabulary)}};
  auto pairs = ordered_json::array();
  for (const PairMerge& merge : merges)
    pairs.push_back(written[static_cast<std::size_t>(merge.left)] + " " +
                    written[static_cast<std::size_t>(merge.right)]);
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(pairs)}};
}

}  // namespace

struct TokenizerTrainer::FrontEnd {
  explicit FrontEnd(const TokenizerRules& rules)
      : normalizer_json(normalizer_of(rules)),
        pre_tokenizer_json(pre_tokenizer_of(rules)),
        normalizer(read_normalizer(JsonCursor(normalizer_json, "the normalizer"))),
        cut(read_pre_tokenizer(JsonCursor(pre_tokenizer_json, "the pre-tokenizer"), true).cut) {}

  nlohmann::json normalizer_json;
  nlohmann::json pre_tokenizer_json;
  TextNormalizer normalizer;
  PreTokenizer cut;  // BPE takes the bytes of a word
};

TokenizerRules usual_rules(TrainedKind kind) {
  if (kind == TrainedKind::byte_pairs) return {.kind = kind, .special = {"<|endoftext|>"}};
  return {.kind = kind,
          .special = {"[PAD]", unknown_piece, "[CLS]", "[SEP]", "[MASK]"},
          .score = MergeScore::likelihood};
}

TokenizerTrainer::TokenizerTrainer(TokenizerRules rules)
    : rules_(checked(std::move(rules))), front_end_(std::make_unique<const FrontEnd>(rules_)) {}

TokenizerTrainer::~TokenizerTrainer() = default;

WordCounts TokenizerTrainer::count(std::string_view text) const {
  WordCounts words;
  const auto count = [&words](const TextPiece& word) { words.add(word.text); };
  if (!front_end_->normalizer) {
    front_end_->cut(TextPiece{text}, count);
    return words;
  }
  const AlignedText normalized = front_end_->normalizer(TextPiece{text});
  front_end_->cut(normalized.piece(), count);
  return words;
}

std::string TokenizerTrainer::train(const WordCounts& words,
                                    const std::string& place,
                                    const MergeListener& listener) const {
  const std::vector<CountedWord> sorted = words.sorted();
  std::unique_ptr<const Symbols> symbols;
  if (rules_.kind == TrainedKind::byte_pairs)
    symbols = std::make_unique<ByteSymbols>(rules_.special);
  else
    symbols = std::make_unique<CharacterSymbols>(rules_.special, sorted);
  if (std::ssize(symbols->texts()) > rules_.vocabulary)
    throw DataError(
        "{}: a vocabulary of {} is too small: its {} and the special tokens require {}; set {} to "
        "at least {}",
        place,
        rules_.vocabulary,
        rules_.kind == TrainedKind::byte_pairs ? "256 bytes" : "characters",
        symbols->texts().size(),
        rules_.vocabulary_key,
        symbols->texts().size());
  BpeTrainer trainer(symbols->texts(),
                     {.score = rules_.score,
                      .ties = rules_.ties,
                      .prefix = rules_.kind == TrainedKind::byte_pairs ? "" : continuing});
  std::vector<std::int32_t> ids;
  for (const CountedWord& word : sorted) {
    ids.clear();
    symbols->append_ids(word.text, ids);
    trainer.add_word(ids, word.count);
  }
  const std::vector<PairMerge> merges = trainer.train(rules_.vocabulary, listener);
  if (std::ssize(trainer.symbols()) < rules_.vocabulary)
    throw DataError(
        "{}: a vocabulary of {} is too large: its repeated pairs yield {}; set {} to at most {}",
        place,
        rules_.vocabulary,
        trainer.symbols().size(),
        rules_.vocabulary_key,
        trainer.symbols().size());
  const ordered_json file = {{"version", "1.0"},
                             {"truncation", nullptr},
                             {"padding", nullptr},
                             {"added_tokens", added_tokens_of(rules_)},
                             {"normalizer", front_end_->normalizer_json},
                             {"pre_tokenizer", front_end_->pre_tokenizer_json},
                             {"post_processor", post_processor_of(rules_)},
                             {"decoder", decoder_of(rules_)},
                             {"model", model_of(rules_, *symbols, trainer.symbols(), merges)}};
  return file.dump() + "\n";
}

std::size_t WordCounts::Hash::operator()(std::string_view text) const {
  return XXH3_64bits(text.data(), text.size());
}

void WordCounts::add(std::string_view word, std::int64_t count) {
  const auto found = counts_.find(word);
  if (found != counts_.end()) {
    found->second += count;
    return;
  }
  const std::size_t bytes = word.size() + bytes_of_entry;
  while (bytes_ + bytes > most_ && !counts_.empty()) drop_rare();
  counts_.emplace(word, count);
  bytes_ += bytes;
}

void WordCounts::drop_rare() {
  std::vector<std::int64_t> counts;
  counts.reserve(counts_.size());
  for (const auto& [word, count] : counts_) counts.push_back(count);
  const auto middle = counts.begin() + std::ssize(counts) / 2;
  std::ranges::nth_element(counts, middle);
  std::erase_if(counts_, [this, most = *middle](const auto& entry) {
    if (entry.second > most) return false;
    bytes_ -= entry.first.size() + bytes_of_entry;
    return true;
  });
}

void WordCounts::add(const WordCounts& other) {
  // Adds in a fixed order, which determines the words that are dropped.
  if (bytes_ + other.bytes_ > most_) {
    for (const CountedWord& word : other.sorted()) add(word.text, word.count);
    return;
  }
  for (const auto& [word, count] : other.counts_) add(word, count);
}

std::vector<CountedWord> WordCounts::sorted() const {
  std::vector<CountedWord> words;
  words.reserve(counts_.size());
  for (const auto& [text, count] : counts_) words.push_back({text, count});
  std::ranges::sort(words, [](const CountedWord& a, const CountedWord& b) {
    return a.count != b.count ? a.count > b.count : a.text < b.text;
  });
  return words;
}

}  // namespace longspan
