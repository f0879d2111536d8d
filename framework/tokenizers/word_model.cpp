#include "framework/tokenizers/word_model.h"

#include <fmt/format.h>

#include "framework/core/error.h"

namespace longspan {
namespace {

constexpr std::size_t max_ids = std::size_t{1} << 24;
// Maximum number of unused ids that a small vocabulary may have.
constexpr std::size_t max_gap = std::size_t{1} << 18;

// WordLevel: looks up the complete word.
class WholeWords : public WordModel {
 public:
  WholeWords(const JsonCursor& json, const WordVocabulary& vocabulary)
      : ids_(vocabulary.ids), unknown_(ids_.find(json["unk_token"].text_or("<unk>"))) {}
  void encode(std::string_view word, std::vector<WordToken>& tokens) const override {
    const std::int32_t found = ids_.find(word);
    const std::int32_t id = found < 0 ? unknown_ : found;
    if (id < 0) throw DataError("the tokenizer has no id for a word and no unknown token");
    tokens.push_back({id, static_cast<std::uint32_t>(word.size())});
  }
  bool is_worth_remembering() const override { return false; }

 private:
  TokenTable ids_;
  std::int32_t unknown_;
};

// Reads [["piece", score], ...].
WordVocabulary read_piece_list(const JsonCursor& json) {
  WordVocabulary vocabulary;
  if (!json.is_list()) json.throw_data_error("a list of pieces and their scores");
  if (json.size() > max_ids) json.throw_data_error(fmt::format("at most {} pieces", max_ids));
  for (std::size_t i = 0; i < json.size(); ++i) {
    const auto& entry = json.value()[i];
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      json[i].throw_data_error("a piece and its score");
    vocabulary.texts.push_back(entry[0].get<std::string>());
    vocabulary.ids.set(vocabulary.texts.back(), static_cast<std::int32_t>(i));
  }
  return vocabulary;
}

std::string kind_of(const JsonCursor& json) {
  const JsonCursor type = json["type"];
  if (type.is_present()) return type.text();
  // Older files lack the type.
  if (json["merges"].is_present()) return "BPE";
  if (json["vocab"].is_list()) return "Unigram";
  return json["max_input_chars_per_word"].is_present() ? "WordPiece" : "WordLevel";
}

}  // namespace

WordVocabulary read_word_vocabulary(const JsonCursor& json) {
  if (!json.value().is_object()) json.throw_data_error("an object of pieces and their ids");
  WordVocabulary vocabulary;
  const std::size_t most = std::min(max_ids, 8 * json.size() + max_gap);
  for (const auto& [piece, id] : json.value().items()) {
    const auto number =
        JsonCursor(id, json.place() + "." + piece).integer(0, static_cast<std::int64_t>(most) - 1);
    const auto place = static_cast<std::size_t>(number);
    if (vocabulary.texts.size() <= place) vocabulary.texts.resize(place + 1);
    vocabulary.texts[place] = piece;
    vocabulary.ids.set(piece, static_cast<std::int32_t>(number));
  }
  return vocabulary;
}

ReadModel read_word_model(const JsonCursor& json, bool bytes) {
  const std::string kind = kind_of(json);
  ReadModel read;
  const JsonCursor pieces = json["vocab"];
  if (kind != "BPE" && kind != "Unigram" && kind != "WordPiece" && kind != "WordLevel")
    json["type"].unknown("BPE, Unigram, WordPiece or WordLevel");
  read.vocabulary = kind == "Unigram" ? read_piece_list(pieces) : read_word_vocabulary(pieces);
  if (kind == "BPE")
    read.model = read_bpe(json, read.vocabulary, bytes);
  else if (kind == "Unigram")
    read.model = read_unigram(json, read.vocabulary);
  else if (kind == "WordPiece")
    read.model = read_wordpiece(json, read.vocabulary);
  else
    read.model = std::make_unique<WholeWords>(json, read.vocabulary);
  return read;
}

std::vector<std::int32_t> byte_piece_ids(const TokenTable& ids) {
  std::vector<std::int32_t> found(256);
  for (std::size_t byte = 0; byte < found.size(); ++byte)
    found[byte] = ids.find(fmt::format("<0x{:02X}>", byte));
  return found;
}

bool add_byte_pieces(std::string_view text,
                     std::size_t begin,
                     std::size_t end,
                     const std::vector<std::int32_t>& byte_ids,
                     std::vector<WordToken>& tokens) {
  for (std::size_t i = begin; i < end; ++i)
    if (byte_ids[static_cast<unsigned char>(text[i])] < 0) return false;
  for (std::size_t i = begin; i < end; ++i)
    tokens.push_back(
        {byte_ids[static_cast<unsigned char>(text[i])], static_cast<std::uint32_t>(i + 1)});
  return true;
}

}  // namespace longspan
