// The most likely segmentation under a unigram language model (Kudo 2018), by the Viterbi
// algorithm.
#include <algorithm>
#include <limits>

#include "framework/core/error.h"
#include "framework/tokenizers/characters.h"
#include "framework/tokenizers/word_model.h"

namespace longspan {
namespace {

constexpr double unknown_penalty = 10;  // below the least likely piece, as in SentencePiece

class Unigram : public WordModel {
 public:
  Unigram(const JsonCursor& json, const WordVocabulary& vocabulary);
  void encode(std::string_view word, std::vector<WordToken>& tokens) const override;

 private:
  // The last piece of the best segmentation of a prefix.
  struct Best {
    double score = 0;
    std::int64_t begin = -1;
    std::int32_t id = -1;
  };
  void find_paths(std::string_view word, std::vector<Best>& best) const;
  void add_unknown(std::string_view word,
                   std::size_t begin,
                   std::size_t end,
                   std::vector<WordToken>& tokens) const;

  TokenTable ids_;
  PrefixTree tree_;
  std::vector<double> scores_;
  std::vector<std::int32_t> byte_ids_;
  std::int32_t unknown_ = -1;
  double unknown_score_ = 0;
};

Unigram::Unigram(const JsonCursor& json, const WordVocabulary& vocabulary) : ids_(vocabulary.ids) {
  const JsonCursor pieces = json["vocab"];
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < vocabulary.texts.size(); ++i) {
    scores_.push_back(pieces.value()[i][1].get<double>());
    least = std::min(least, scores_.back());
    tree_.add(vocabulary.texts[i], ids_.find(vocabulary.texts[i]));
  }
  unknown_score_ = least - unknown_penalty;
  const JsonCursor unknown = json["unk_id"];
  if (unknown.is_present())
    unknown_ = static_cast<std::int32_t>(
        unknown.integer(0, static_cast<std::int64_t>(vocabulary.texts.size()) - 1));
  if (json["byte_fallback"].flag(false)) byte_ids_ = byte_piece_ids(ids_);
}

void Unigram::find_paths(std::string_view word, std::vector<Best>& best) const {
  const auto reach = [&best](std::size_t end, double score, std::size_t begin, std::int32_t id) {
    Best& there = best[end];
    if (there.begin >= 0 && score <= there.score) return;
    there = {score, static_cast<std::int64_t>(begin), id};
  };
  for (std::size_t begin = 0; begin < word.size();) {
    const std::size_t width = next_character(word.substr(begin)).width;
    const double score = best[begin].score;
    bool has_character = false;
    tree_.for_each_prefix(word.substr(begin), [&](std::size_t bytes, std::int32_t id) {
      reach(begin + bytes, score + scores_[static_cast<std::size_t>(id)], begin, id);
      has_character = has_character || bytes == width;
    });
    if (!has_character) reach(begin + width, score + unknown_score_, begin, unknown_);
    begin += width;
  }
}

void Unigram::add_unknown(std::string_view word,
                          std::size_t begin,
                          std::size_t end,
                          std::vector<WordToken>& tokens) const {
  // Consecutive unknown characters may equal a piece.
  const std::int32_t id = ids_.find(word.substr(begin, end - begin));
  if (id < 0 && !byte_ids_.empty() && add_byte_pieces(word, begin, end, byte_ids_, tokens)) return;
  if (id < 0 && unknown_ < 0)
    throw DataError("the tokenizer has no id for a character and no unknown token");
  tokens.push_back({id < 0 ? unknown_ : id, static_cast<std::uint32_t>(end)});
}

void Unigram::encode(std::string_view word, std::vector<WordToken>& tokens) const {
  std::vector<Best> best(word.size() + 1);
  find_paths(word, best);
  std::vector<std::pair<std::size_t, bool>> ends;  // of pieces, from the end; whether unknown
  for (auto end = word.size(); end > 0; end = static_cast<std::size_t>(best[end].begin))
    ends.emplace_back(end, unknown_ < 0 ? best[end].id < 0 : best[end].id == unknown_);
  std::size_t begin = 0;
  for (std::size_t i = ends.size(); i-- > 0;) {
    const auto [end, is_unknown] = ends[i];
    // Adjacent unknown characters form one token.
    if (is_unknown && unknown_ >= 0 && i > 0 && ends[i - 1].second) continue;
    if (is_unknown)
      add_unknown(word, begin, end, tokens);
    else
      tokens.push_back({best[end].id, static_cast<std::uint32_t>(end)});
    begin = end;
  }
}

}  // namespace

std::unique_ptr<const WordModel> read_unigram(const JsonCursor& json,
                                              const WordVocabulary& vocabulary) {
  return std::make_unique<Unigram>(json, vocabulary);
}

}  // namespace longspan
