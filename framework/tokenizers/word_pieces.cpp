// WordPiece (Schuster and Nakajima 2012, as implemented by BERT): greedy longest match from the
// left; a word with an unmatched part is unknown as a unit.
#include <algorithm>

#include "framework/core/error.h"
#include "framework/tokenizers/characters.h"
#include "framework/tokenizers/word_model.h"

namespace longspan {
namespace {

class WordPieces : public WordModel {
 public:
  WordPieces(const JsonCursor& json, const WordVocabulary& vocabulary)
      : ids_(vocabulary.ids), prefix_(json["continuing_subword_prefix"].text_or("##")) {
    const JsonCursor unknown = json["unk_token"];
    unknown_ = ids_.find(unknown.text_or("[UNK]"));
    if (unknown_ < 0) unknown.throw_data_error("a piece of the vocabulary");
    const JsonCursor most = json["max_input_chars_per_word"];
    max_characters_ = most.is_present() ? most.integer(0, INT32_MAX) : 100;
    for (const std::string& text : vocabulary.texts) longest_ = std::max(longest_, text.size());
  }

  void encode(std::string_view word, std::vector<WordToken>& tokens) const override {
    const std::size_t before = tokens.size();
    if (characters_of(word) <= max_characters_ && add_pieces(word, tokens)) return;
    tokens.resize(before);
    tokens.push_back({unknown_, static_cast<std::uint32_t>(word.size())});
  }

 private:
  static std::int64_t characters_of(std::string_view word) {
    return std::ranges::count_if(
        word, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  }
  bool add_pieces(std::string_view word, std::vector<WordToken>& tokens) const {
    std::string piece;
    for (std::size_t begin = 0; begin < word.size();) {
      std::size_t end = std::min(word.size(), begin + longest_);
      std::int32_t id = -1;
      for (; end > begin; --end) {
        const bool ends_character =
            end == word.size() || (static_cast<unsigned char>(word[end]) & 0xC0) != 0x80;
        if (!ends_character) continue;
        piece.assign(begin == 0 ? "" : prefix_);
        piece += word.substr(begin, end - begin);
        id = ids_.find(piece);
        if (id >= 0) break;
      }
      if (id < 0) return false;
      tokens.push_back({id, static_cast<std::uint32_t>(end)});
      begin = end;
    }
    return true;
  }

  TokenTable ids_;
  std::string prefix_;
  std::int32_t unknown_ = -1;
  std::int64_t max_characters_ = 100;
  std::size_t longest_ = 1;  // bytes
};

}  // namespace

std::unique_ptr<const WordModel> read_wordpiece(const JsonCursor& json,
                                                const WordVocabulary& vocabulary) {
  return std::make_unique<WordPieces>(json, vocabulary);
}

}  // namespace longspan
