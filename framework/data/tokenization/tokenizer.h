// Text to token ids and back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/progress.h"

namespace longspan {

class JsonTokenizer;
class InputFile;
class SentencePieceModel;

enum class TokenizerKind : std::uint8_t { bytes, characters, sentencepiece, tokenizer_json, ids };
std::string_view name_of(TokenizerKind kind);

// A value; copies share the vocabulary.
//
// bytes: id = byte, 256 ids, any file. characters: a token is a Unicode code point; ids are the
// code points of a text in ascending order, after id 0 = `<unknown>` where there is one.
// sentencepiece: the pieces of a model of that library, of a whole text; of a model that is trained
// here line by line, and a line's end is one token.
// tokenizer_json: what the package `tokenizers` makes of a whole text, without the tokens that
// begin and end one.
// ids: tokens that someone else has made; a text is their numbers with blanks between them.
class Tokenizer {
 public:
  static constexpr std::string_view unknown_name = "<unknown>";
  static constexpr std::int64_t unknown_id = 0;

  // The byte tokenizer.
  Tokenizer() = default;
  // Of these code points, in any order, repeated or not. Throws DataError when there are none.
  static Tokenizer characters(std::span<const char32_t> code_points, bool with_unknown);
  // Of the characters of a file, read once from its beginning to its end in small pieces. Throws
  // DataError with the byte offset when it is not UTF-8.
  static Tokenizer characters_of(const InputFile& file,
                                 bool with_unknown,
                                 const ProgressCallback& listener = {});
  // Of a model of SentencePiece.
  static Tokenizer subwords(const SentencePieceModel& model);
  // As the package `tokenizers` has them.
  static Tokenizer from_huggingface(const JsonTokenizer& model);
  // Of ids below `vocabulary`, without the text that they stand for.
  static Tokenizer ids(std::int64_t vocabulary);
  // The inverse of `to_json`. Throws DataError; `place` names the text in the message.
  static Tokenizer from_json(std::string_view json, std::string_view place);

  TokenizerKind kind() const;
  // The number of ids.
  std::int64_t vocabulary() const;
  // Of characters.
  bool has_unknown() const;
  // What it takes to say which character an `<unknown>` is, in nats: the logarithm of the number of
  // Unicode's characters (scalar values) that are not in the vocabulary, none likelier than
  // another. 0 where there is no `<unknown>`.
  double unknown_nats() const;
  // None but for subwords.
  const SentencePieceModel* subword_model() const { return subwords_.get(); }
  // None but for tokenizer_json.
  const JsonTokenizer* json_tokenizer() const { return json_.get(); }
  // Whether tokens have no place in a text that can be reckoned: it is encoded into a file.
  bool needs_token_file() const { return subwords_ || json_; }
  // The id of a code point (characters only); -1 when it is not in the vocabulary and there is no
  // `<unknown>`.
  std::int64_t id_of(char32_t code_point) const;
  // The same; throws DataError naming `place`, the byte offset and the character when it has no id.
  std::int64_t id_at(char32_t code_point, std::string_view place, std::int64_t offset) const;

  // Throws DataError naming `place`, the byte offset and the character for what has no id.
  std::vector<std::int64_t> encode(std::string_view text, std::string_view place) const;
  // The inverse; `<unknown>` gives U+FFFD. The result of single tokens of `bytes` need not be valid
  // UTF-8. Throws DataError for an id outside of the vocabulary.
  std::string decode(std::span<const std::int64_t> ids) const;

  // Deterministic, readable, and enough to make the same tokenizer again.
  std::string to_json() const;
  // Equal for equal tokenizers on every machine.
  std::uint64_t fingerprint() const;

  friend bool operator==(const Tokenizer& a, const Tokenizer& b);

 private:
  struct Vocabulary;
  std::vector<std::int64_t> encode_subwords(std::string_view text, std::string_view place) const;
  std::string decode_subwords(std::span<const std::int64_t> ids) const;

  // At most one of them; none: bytes.
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::shared_ptr<const SentencePieceModel> subwords_;
  std::shared_ptr<const JsonTokenizer> json_;
  std::int64_t ids_ = 0;  // the vocabulary of ids; 0: another kind
};

}  // namespace longspan
