// Models that split a word into tokens: BPE, unigram, WordPiece, or a lookup of the complete word.
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

// Words are valid UTF-8 and not empty. Encoding is thread-safe.
class WordModel {
 public:
  virtual ~WordModel() = default;
  // Appends the tokens of a word. Throws DataError for a character without an id where there is no
  // unknown token.
  virtual void encode(std::string_view word, std::vector<WordToken>& tokens) const = 0;
  // Returns whether words may be raw bytes, for a vocabulary in byte-level characters
  // (characters.h).
  virtual bool supports_bytes() const { return false; }
  // Returns whether words are split before each space character (U+2581) that follows another
  // character. Parts encoded one by one then yield the word's tokens.
  virtual bool cuts_words() const { return false; }
  // Returns the bytes of the first such part.
  virtual std::size_t part_of(std::string_view word) const { return word.size(); }
  // Returns whether caching a short word is faster than encoding it again.
  virtual bool is_worth_remembering() const { return true; }
};

// The vocabulary by id; "" for unused ids.
struct WordVocabulary {
  TokenTable ids;
  std::vector<std::string> texts;
};
// Reads {"piece": id, ...}. Throws DataError for invalid ids, such as large gaps.
WordVocabulary read_word_vocabulary(const JsonCursor& json);

// Reads the member "model" of a file, including its vocabulary. `bytes`: words will be raw bytes,
// if the model supports them. Throws DataError.
struct ReadModel {
  std::unique_ptr<const WordModel> model;
  WordVocabulary vocabulary;
};
ReadModel read_word_model(const JsonCursor& json, bool bytes);

// One reader per "type".
std::unique_ptr<const WordModel> read_bpe(const JsonCursor& json,
                                          const WordVocabulary& vocabulary,
                                          bool bytes);
std::unique_ptr<const WordModel> read_unigram(const JsonCursor& json,
                                              const WordVocabulary& vocabulary);
std::unique_ptr<const WordModel> read_wordpiece(const JsonCursor& json,
                                                const WordVocabulary& vocabulary);

// Returns the ids of <0x00> to <0xFF>; -1 where the vocabulary lacks one.
std::vector<std::int32_t> byte_piece_ids(const TokenTable& ids);
// Appends a token for each byte of text[begin, end); returns false where one has none.
bool add_byte_pieces(std::string_view text,
                     std::size_t begin,
                     std::size_t end,
                     const std::vector<std::int32_t>& byte_ids,
                     std::vector<WordToken>& tokens);

}  // namespace longspan
