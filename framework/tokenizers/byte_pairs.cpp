// Byte pair encoding (Sennrich et al. 2016): applies merges in the order of training, anywhere in
// the word.
#include <algorithm>
#include <array>
#include <queue>
#include <span>
#include <utility>

#include "framework/core/error.h"
#include "framework/tokenizers/characters.h"
#include "framework/tokenizers/chunk_boundaries.h"
#include "framework/tokenizers/word_model.h"

namespace longspan {
namespace {

// The adjacent tokens of a token in a word, by position; `none` at its ends.
struct Neighbors {
  std::uint32_t previous = 0;
  std::uint32_t next = 0;
};
constexpr std::uint32_t none = UINT32_MAX;
// Words of at most this many symbols use a linear search for each merge.
constexpr std::size_t max_searched = 24;

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

struct PossibleMerge {
  std::uint32_t rank = 0;
  std::uint32_t place = 0;

  friend bool operator>(const PossibleMerge& a, const PossibleMerge& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
  }
};

class BytePairs : public WordModel {
 public:
  BytePairs(const JsonCursor& json, const WordVocabulary& vocabulary, bool bytes);
  void encode(std::string_view word, std::vector<WordToken>& tokens) const override;
  bool supports_bytes() const override { return of_bytes_; }
  bool cuts_words() const override { return cuts_words_; }
  std::size_t part_of(std::string_view word) const override;

 private:
  void read_merges(const JsonCursor& json, const WordVocabulary& vocabulary);
  void take_bytes(const WordVocabulary& vocabulary);
  void add_characters(std::string_view word, std::vector<WordToken>& tokens) const;
  void merge_short(std::vector<WordToken>& tokens, std::size_t begin) const;
  void merge_long(std::vector<WordToken>& tokens, std::size_t begin) const;

  TokenTable ids_;  // keys are raw bytes where words are bytes
  KeyTable merges_;
  std::vector<std::int32_t> byte_ids_;  // of <0x00> to <0xFF>, with byte_fallback
  std::array<std::int32_t, 256> letters_{};
  std::string prefix_;  // of all characters but the first
  std::string suffix_;  // of the last character
  std::int32_t unknown_ = -1;
  bool fuses_unknown_ = false;
  bool ignores_merges_ = false;
  bool of_bytes_ = false;
  bool cuts_words_ = true;
};

BytePairs::BytePairs(const JsonCursor& json, const WordVocabulary& vocabulary, bool bytes)
    : ids_(vocabulary.ids),
      prefix_(json["continuing_subword_prefix"].text_or("")),
      suffix_(json["end_of_word_suffix"].text_or("")),
      fuses_unknown_(json["fuse_unk"].flag(false)),
      ignores_merges_(json["ignore_merges"].flag(false)) {
  const JsonCursor dropout = json["dropout"];
  if (dropout.is_present() && dropout.number() != 0)
    dropout.throw_data_error("null or 0, as dropout is not supported");
  const JsonCursor unknown = json["unk_token"];
  if (unknown.is_present()) {
    unknown_ = ids_.find(unknown.text());
    if (unknown_ < 0) unknown.throw_data_error("a piece of the vocabulary");
  }
  if (json["byte_fallback"].flag(false)) byte_ids_ = byte_piece_ids(ids_);
  read_merges(json["merges"], vocabulary);
  if (bytes) take_bytes(vocabulary);
  // A word's parts are interdependent if no space piece ends an unknown run, or if complete words
  // are looked up.
  cuts_words_ = cuts_words_ && prefix_.empty() && suffix_.empty() && !ignores_merges_ &&
                !of_bytes_ && ids_.find(space_letter) >= 0;
}

void BytePairs::read_merges(const JsonCursor& json, const WordVocabulary& vocabulary) {
  if (!json.is_list()) json.throw_data_error("a list of merges");
  merges_.reserve(json.size());
  for (std::size_t i = 0; i < json.size(); ++i) {
    const auto& entry = json.value()[i];
    std::string left;
    std::string right;
    if (entry.is_string()) {
      const auto& both = entry.get_ref<const std::string&>();
      const std::size_t space = both.find(' ');
      if (space == std::string::npos || both.find(' ', space + 1) != std::string::npos)
        json[i].throw_data_error("two pieces with a space between them");
      left = both.substr(0, space);
      right = both.substr(space + 1);
    } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() &&
               entry[1].is_string()) {
      left = entry[0].get<std::string>();
      right = entry[1].get<std::string>();
    } else {
      json[i].throw_data_error("two pieces");
    }
    if (right.size() < prefix_.size())
      json[i].throw_data_error("a second piece that begins with the continuing-subword prefix");
    const std::int32_t left_id = vocabulary.ids.find(left);
    const std::int32_t right_id = vocabulary.ids.find(right);
    const std::int32_t whole = vocabulary.ids.find(left + right.substr(prefix_.size()));
    if (left_id < 0 || right_id < 0 || whole < 0)
      json[i].throw_data_error("two pieces of the vocabulary whose merge is in it too");
    merges_.set(pair_key(left_id, right_id), static_cast<std::uint32_t>(i), whole);
    if (right.starts_with(space_letter) && !left.ends_with(space_letter)) cuts_words_ = false;
  }
}

void BytePairs::take_bytes(const WordVocabulary& vocabulary) {
  if (!prefix_.empty() || !suffix_.empty()) return;
  for (std::size_t byte = 0; byte < letters_.size(); ++byte) {
    letters_[byte] = ids_.find(utf8_of(byte_to_unicode()[byte]));
    if (letters_[byte] < 0) return;
  }
  of_bytes_ = true;
  ids_ = {};
  for (std::size_t id = 0; id < vocabulary.texts.size(); ++id)
    if (const auto raw = from_byte_letters(vocabulary.texts[id]); raw && !raw->empty())
      ids_.set(*raw, static_cast<std::int32_t>(id));
}

// As in the package, a pending unknown token is emitted before the next character with its own
// piece, or at the word's end. Byte pieces precede it.
void BytePairs::add_characters(std::string_view word, std::vector<WordToken>& tokens) const {
  bool unknown_waits = false;
  const auto end_unknown = [&](std::size_t end) {
    if (std::exchange(unknown_waits, false))
      tokens.push_back({unknown_, static_cast<std::uint32_t>(end)});
  };
  std::string letter;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t end = at + next_character(word.substr(at)).width;
    letter.assign(at == 0 ? "" : prefix_);
    letter += word.substr(at, end - at);
    if (end == word.size()) letter += suffix_;
    if (const std::int32_t id = ids_.find(letter); id >= 0) {
      end_unknown(at);
      tokens.push_back({id, static_cast<std::uint32_t>(end)});
    } else if (byte_ids_.empty() || !add_byte_pieces(word, at, end, byte_ids_, tokens)) {
      if (!fuses_unknown_) end_unknown(at);
      unknown_waits = unknown_ >= 0;
    }
    at = end;
  }
  end_unknown(word.size());
}

// Returns the length up to the next space character after another character; no merge crosses it.
std::size_t BytePairs::part_of(std::string_view word) const {
  if (!cuts_words_) return word.size();
  for (std::size_t at = word.find(space_letter, 1); at != std::string_view::npos;
       at = word.find(space_letter, at + 1))
    if (!word.substr(0, at).ends_with(space_letter)) return at;
  return word.size();
}

void BytePairs::encode(std::string_view word, std::vector<WordToken>& tokens) const {
  if (ignores_merges_) {
    if (const std::int32_t id = ids_.find(word); id >= 0) {
      tokens.push_back({id, static_cast<std::uint32_t>(word.size())});
      return;
    }
  }
  const std::size_t begin = tokens.size();
  if (of_bytes_) {
    for (std::size_t i = 0; i < word.size(); ++i)
      tokens.push_back(
          {letters_[static_cast<unsigned char>(word[i])], static_cast<std::uint32_t>(i + 1)});
  } else {
    add_characters(word, tokens);
  }
  if (tokens.size() - begin <= max_searched)
    merge_short(tokens, begin);
  else
    merge_long(tokens, begin);
}

// Stores pair ranks next to the tokens; each merge searches for the minimum.
void BytePairs::merge_short(std::vector<WordToken>& tokens, std::size_t begin) const {
  struct Pair {
    std::uint32_t rank = UINT32_MAX;
    std::int32_t id = -1;
  };
  std::array<Pair, max_searched> pairs;
  WordToken* const word = tokens.data() + begin;
  std::size_t count = tokens.size() - begin;
  const auto look = [&](std::size_t i) {
    const auto* const merge =
        i + 1 < count ? merges_.find(pair_key(word[i].id, word[i + 1].id)) : nullptr;
    pairs[i] = merge == nullptr ? Pair{} : Pair{merge->first, merge->second};
  };
  for (std::size_t i = 0; i < count; ++i) look(i);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i)
      if (pairs[i].rank < pairs[best].rank) best = i;
    if (pairs[best].id < 0) break;
    word[best] = {pairs[best].id, word[best + 1].end};
    std::copy(word + best + 2, word + count, word + best + 1);
    std::copy(pairs.begin() + static_cast<std::ptrdiff_t>(best) + 2,
              pairs.begin() + static_cast<std::ptrdiff_t>(count),
              pairs.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    --count;
    look(best);
    if (best > 0) look(best - 1);
  }
  tokens.resize(begin + count);
}

// A heap of pairs, in which stale entries are skipped. A token that was merged into another one has
// the id -1.
void BytePairs::merge_long(std::vector<WordToken>& tokens, std::size_t begin) const {
  const std::span<WordToken> word = std::span(tokens).subspan(begin);
  const auto count = static_cast<std::uint32_t>(word.size());
  std::vector<Neighbors> links(count);
  for (std::uint32_t i = 0; i < count; ++i)
    links[i] = {i > 0 ? i - 1 : none, i + 1 < count ? i + 1 : none};
  const auto merge_at = [&](std::uint32_t left) -> const KeyTable::Entry* {
    if (left == none || word[left].id < 0 || links[left].next == none) return nullptr;
    return merges_.find(pair_key(word[left].id, word[links[left].next].id));
  };
  std::vector<PossibleMerge> possible;
  for (std::uint32_t i = 0; i < count; ++i)
    if (const auto* const merge = merge_at(i)) possible.push_back({merge->first, i});
  std::priority_queue<PossibleMerge, std::vector<PossibleMerge>, std::greater<>> queue(
      std::greater<>(), std::move(possible));
  const auto push = [&](std::uint32_t left) {
    if (const auto* const merge = merge_at(left)) queue.push({merge->first, left});
  };
  while (!queue.empty()) {
    const PossibleMerge top = queue.top();
    queue.pop();
    const auto* const merge = merge_at(top.place);
    if (merge == nullptr || merge->first != top.rank) continue;
    const std::uint32_t right = links[top.place].next;
    const std::uint32_t after = links[right].next;
    word[top.place] = {merge->second, word[right].end};
    word[right].id = -1;
    links[top.place].next = after;
    if (after != none) links[after].previous = top.place;
    push(links[top.place].previous);
    push(top.place);
  }
  const auto from = tokens.begin() + static_cast<std::ptrdiff_t>(begin);
  tokens.erase(
      std::remove_if(from, tokens.end(), [](const WordToken& token) { return token.id < 0; }),
      tokens.end());
}

}  // namespace

std::unique_ptr<const WordModel> read_bpe(const JsonCursor& json,
                                          const WordVocabulary& vocabulary,
                                          bool bytes) {
  return std::make_unique<BytePairs>(json, vocabulary, bytes);
}

}  // namespace longspan
