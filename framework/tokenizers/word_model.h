// What cuts a word into tokens: byte pairs merged in order, the likeliest pieces, the longest ones,
// or the word itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "framework/tokenizers/json_place.h"
#include "framework/tokenizers/token_table.h"

namespace longspan {

struct WordToken {
  std::int32_t id = 0;
  std::uint32_t end = 0;  // in bytes of the word
};

// A word is valid UTF-8 and not empty. Encoding is thread-safe.
class WordModel {
 public:
  virtual ~WordModel() = default;
  // Adds the tokens of a word. Throws DataError where it has a character that the model has no id
  // for, and no id for what is unknown.
  virtual void encode(std::string_view word, std::vector<WordToken>& tokens) const = 0;
  // Whether words may come as the bytes of a text, which the model knows by the characters that
  // byte-level tokenizers write for them (byte_to_unicode.h).
  virtual bool takes_bytes() const { return false; }
  // Whether words are cut before each letter that stands for a space (U+2581) behind another
  // character: of such parts one by one come the tokens of the word.
  virtual bool cuts_words() const { return false; }
  // The bytes of the first such part.
  virtual std::size_t part_of(std::string_view word) const { return word.size(); }
  // Whether a word of up to some bytes is better remembered than encoded again.
  virtual bool is_worth_remembering() const { return true; }
};

// The pieces of the vocabulary by id; "" for ids that none has.
struct WordVocabulary {
  TokenTable ids;
  std::vector<std::string> texts;
};
// Of {"piece": id, ...}. Throws DataError for ids of no sense, such as many without a piece.
WordVocabulary read_word_vocabulary(const JsonCursor& json);

// Of the member "model" of a file; gives its vocabulary too. `bytes`: words will come as bytes, if
// the model takes them. Throws DataError.
struct ReadModel {
  std::unique_ptr<const WordModel> model;
  WordVocabulary vocabulary;
};
ReadModel read_word_model(const JsonCursor& json, bool bytes);

// Each kind, with its "type".
std::unique_ptr<const WordModel> read_bpe(const JsonCursor& json,
                                          const WordVocabulary& vocabulary,
                                          bool bytes);
std::unique_ptr<const WordModel> read_unigram(const JsonCursor& json,
                                              const WordVocabulary& vocabulary);
std::unique_ptr<const WordModel> read_wordpiece(const JsonCursor& json,
                                                const WordVocabulary& vocabulary);

// The ids of <0x00> to <0xFF>; -1 where the vocabulary lacks one.
std::vector<std::int32_t> byte_piece_ids(const TokenTable& ids);
// Adds the tokens of each byte of text[begin, end); false where one has none.
bool add_byte_pieces(std::string_view text,
                     std::size_t begin,
                     std::size_t end,
                     const std::vector<std::int32_t>& byte_ids,
                     std::vector<WordToken>& tokens);

}  // namespace longspan
