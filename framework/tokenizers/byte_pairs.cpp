// Byte pair encoding (Sennrich et al. 2016): the pair that was merged first in training is merged
// first, wherever it is.
#include <algorithm>
#include <array>
#include <queue>

#include "framework/core/error.h"
#include "framework/core/option_text.h"
#include "framework/tokenizers/byte_letters.h"
#include "framework/tokenizers/characters.h"
#include "framework/tokenizers/word_model.h"

namespace longspan {
namespace {

// A part of a word that is one token so far.
struct Symbol {
  std::int32_t id = 0;
  std::uint32_t end = 0;  // in bytes of the word
  // Places of its neighbours; -1 where there is none, and `merged` of what is in another.
  std::int64_t previous = -1;
  std::int64_t next = -1;
};
constexpr std::int64_t merged = -2;
// Words of up to so many symbols are searched through for each merge.
constexpr std::size_t most_searched = 24;

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

struct PossibleMerge {
  std::uint32_t rank = 0;
  std::int64_t place = 0;
  std::int32_t id = 0;

  friend bool operator>(const PossibleMerge& a, const PossibleMerge& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
  }
};

class BytePairs : public WordModel {
 public:
  BytePairs(const JsonPlace& json, const WordVocabulary& vocabulary, bool bytes);
  void encode(std::string_view word, std::vector<WordToken>& tokens) const override;
  bool takes_bytes() const override { return of_bytes_; }

 private:
  void read_merges(const JsonPlace& json, const WordVocabulary& vocabulary);
  void take_bytes(const WordVocabulary& vocabulary);
  void add_characters(std::string_view word, std::vector<WordToken>& tokens) const;
  void add_unknown(std::uint32_t end, bool& is_open, std::vector<WordToken>& tokens) const;
  void merge_short(std::vector<WordToken>& tokens, std::size_t begin) const;
  void merge_long(std::vector<WordToken>& tokens, std::size_t begin) const;

  TokenTable ids_;  // of bytes where words come as bytes
  KeyTable merges_;
  std::vector<std::int32_t> byte_ids_;  // of <0x00> to <0xFF>, with byte_fallback
  std::array<std::int32_t, 256> letters_{};
  std::string prefix_;  // of all but the first character
  std::string suffix_;  // of the last
  std::int32_t unknown_ = -1;
  bool fuses_unknown_ = false;
  bool ignores_merges_ = false;
  bool of_bytes_ = false;
};

BytePairs::BytePairs(const JsonPlace& json, const WordVocabulary& vocabulary, bool bytes)
    : ids_(vocabulary.ids),
      prefix_(json["continuing_subword_prefix"].text_or("")),
      suffix_(json["end_of_word_suffix"].text_or("")),
      fuses_unknown_(json["fuse_unk"].flag(false)),
      ignores_merges_(json["ignore_merges"].flag(false)) {
  const JsonPlace dropout = json["dropout"];
  if (dropout.is_there() && dropout.number() != 0)
    dropout.refuse("null: each text has one encoding");
  const JsonPlace unknown = json["unk_token"];
  if (unknown.is_there()) {
    unknown_ = ids_.find(unknown.text());
    if (unknown_ < 0) unknown.refuse("a piece of the vocabulary");
  }
  if (json["byte_fallback"].flag(false)) byte_ids_ = byte_piece_ids(ids_);
  read_merges(json["merges"], vocabulary);
  if (bytes) take_bytes(vocabulary);
}

void BytePairs::read_merges(const JsonPlace& json, const WordVocabulary& vocabulary) {
  if (!json.is_list()) json.refuse("a list of merges");
  merges_.reserve(json.size());
  for (std::size_t i = 0; i < json.size(); ++i) {
    const auto& entry = json.value()[i];
    std::string left;
    std::string right;
    if (entry.is_string()) {
      const auto& both = entry.get_ref<const std::string&>();
      const std::size_t space = both.find(' ');
      if (space == std::string::npos || both.find(' ', space + 1) != std::string::npos)
        json[i].refuse("two pieces with a space between them");
      left = both.substr(0, space);
      right = both.substr(space + 1);
    } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() &&
               entry[1].is_string()) {
      left = entry[0].get<std::string>();
      right = entry[1].get<std::string>();
    } else {
      json[i].refuse("two pieces");
    }
    if (right.size() < prefix_.size()) json[i].refuse("pieces that begin as they go on in a word");
    const std::int32_t left_id = vocabulary.ids.find(left);
    const std::int32_t right_id = vocabulary.ids.find(right);
    const std::int32_t whole = vocabulary.ids.find(left + right.substr(prefix_.size()));
    if (left_id < 0 || right_id < 0 || whole < 0)
      json[i].refuse("two pieces of the vocabulary, whose merge is one too");
    merges_.set(pair_key(left_id, right_id), static_cast<std::uint32_t>(i), whole);
  }
}

void BytePairs::take_bytes(const WordVocabulary& vocabulary) {
  if (!prefix_.empty() || !suffix_.empty()) return;
  for (std::size_t byte = 0; byte < letters_.size(); ++byte) {
    letters_[byte] = ids_.find(utf8_of(byte_letters()[byte]));
    if (letters_[byte] < 0) return;
  }
  of_bytes_ = true;
  ids_ = {};
  for (std::size_t id = 0; id < vocabulary.texts.size(); ++id)
    if (const auto raw = from_byte_letters(vocabulary.texts[id]); raw && !raw->empty())
      ids_.set(*raw, static_cast<std::int32_t>(id));
}

void BytePairs::add_unknown(std::uint32_t end,
                            bool& is_open,
                            std::vector<WordToken>& tokens) const {
  if (unknown_ < 0) return;
  if (is_open && fuses_unknown_) {
    tokens.back().end = end;
    return;
  }
  tokens.push_back({unknown_, end});
  is_open = true;
}

void BytePairs::add_characters(std::string_view word, std::vector<WordToken>& tokens) const {
  bool unknown_is_open = false;
  std::string letter;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t end = at + next_character(word.substr(at)).width;
    letter.assign(at == 0 ? "" : prefix_);
    letter += word.substr(at, end - at);
    if (end == word.size()) letter += suffix_;
    const std::int32_t id = ids_.find(letter);
    if (id >= 0) {
      tokens.push_back({id, static_cast<std::uint32_t>(end)});
      unknown_is_open = false;
    } else if (byte_ids_.empty() || !add_byte_pieces(word, at, end, byte_ids_, tokens)) {
      add_unknown(static_cast<std::uint32_t>(end), unknown_is_open, tokens);
    } else {
      unknown_is_open = false;
    }
    at = end;
  }
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
  if (tokens.size() - begin <= most_searched)
    merge_short(tokens, begin);
  else
    merge_long(tokens, begin);
}

// The ranks of the pairs are kept beside the tokens, and each merge looks for the least.
void BytePairs::merge_short(std::vector<WordToken>& tokens, std::size_t begin) const {
  struct Pair {
    std::uint32_t rank = UINT32_MAX;
    std::int32_t id = -1;
  };
  std::array<Pair, most_searched> pairs;
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

// A heap of the pairs there were; those that are no more are passed over.
void BytePairs::merge_long(std::vector<WordToken>& tokens, std::size_t begin) const {
  const auto count = static_cast<std::int64_t>(tokens.size() - begin);
  std::vector<Symbol> symbols(static_cast<std::size_t>(count));
  const auto at = [&symbols](std::int64_t i) -> Symbol& {
    return symbols[static_cast<std::size_t>(i)];
  };
  for (std::int64_t i = 0; i < count; ++i) {
    const WordToken& token = tokens[begin + static_cast<std::size_t>(i)];
    at(i) = {token.id, token.end, i - 1, i + 1 < count ? i + 1 : -1};
  }
  std::vector<PossibleMerge> possible;
  const auto merge_of = [&](std::int64_t left) {
    return merges_.find(pair_key(at(left).id, at(at(left).next).id));
  };
  for (std::int64_t i = 0; i + 1 < count; ++i)
    if (const auto* const merge = merge_of(i)) possible.push_back({merge->first, i, merge->second});
  std::priority_queue<PossibleMerge, std::vector<PossibleMerge>, std::greater<>> queue(
      std::greater<>(), std::move(possible));
  const auto push = [&](std::int64_t left) {
    if (left < 0 || at(left).next < 0) return;
    if (const auto* const merge = merge_of(left)) queue.push({merge->first, left, merge->second});
  };
  while (!queue.empty()) {
    const PossibleMerge top = queue.top();
    queue.pop();
    Symbol& left = at(top.place);
    if (left.next < 0) continue;
    const auto* const merge = merge_of(top.place);
    if (merge == nullptr || merge->second != top.id) continue;
    Symbol& right = at(left.next);
    const std::int64_t after = right.next;
    left = {top.id, right.end, left.previous, after};
    right.next = merged;
    if (after >= 0) at(after).previous = top.place;
    push(left.previous);
    push(top.place);
  }
  std::size_t end = begin;
  for (std::int64_t i = 0; i >= 0; i = at(i).next) tokens[end++] = {at(i).id, at(i).end};
  tokens.resize(end);
}

}  // namespace

std::unique_ptr<const WordModel> read_byte_pairs(const JsonPlace& json,
                                                 const WordVocabulary& vocabulary,
                                                 bool bytes) {
  return std::make_unique<BytePairs>(json, vocabulary, bytes);
}

}  // namespace longspan
