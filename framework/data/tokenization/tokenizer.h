// Tokenizers: text to token ids and back.
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
// bytes: id = byte, 256 ids, any file.
// characters: a token is a Unicode code point. Ids are the code points of a text in ascending
// order, after id 0 = `<unknown>` if enabled.
// sentencepiece: pieces of a SentencePiece model. Models trained here encode line by line, and a
// line end is one token.
// tokenizer_json: the encoding of Hugging Face `tokenizers`, without special tokens before and
// after the text.
// ids: pretokenized data. Its text form is the ids, separated by blanks.
class Tokenizer {
 public:
  static constexpr std::string_view unknown_name = "<unknown>";
  static constexpr std::int64_t unknown_id = 0;

  // The byte tokenizer.
  Tokenizer() = default;
  // Returns a tokenizer of these code points, in any order and with repetitions. Throws DataError
  // when empty.
  static Tokenizer characters(std::span<const char32_t> code_points, bool with_unknown);
  // Returns a tokenizer of the characters of a file, read once in small chunks. Throws DataError,
  // with the byte offset, for invalid UTF-8.
  static Tokenizer characters_of(const InputFile& file,
                                 bool with_unknown,
                                 const ProgressCallback& listener = {});
  // Returns a tokenizer of a SentencePiece model.
  static Tokenizer subwords(const SentencePieceModel& model);
  // Returns a Hugging Face tokenizer.
  static Tokenizer from_huggingface(const JsonTokenizer& model);
  // Returns a tokenizer of ids below `vocabulary`, without text.
  static Tokenizer ids(std::int64_t vocabulary);
  // Inverse of `to_json`. Throws DataError, which names `place`.
  static Tokenizer from_json(std::string_view json, std::string_view place);

  TokenizerKind kind() const;
  // Number of ids.
  std::int64_t vocabulary() const;
  // Returns whether a character tokenizer has `<unknown>`.
  bool has_unknown() const;
  // Returns the nats to identify the character of an `<unknown>`, or 0 without `<unknown>`. It is
  // the log of the number of Unicode scalar values outside of the vocabulary, assumed equally
  // likely.
  double unknown_nats() const;
  // Null except for subwords.
  const SentencePieceModel* subword_model() const { return subwords_.get(); }
  // Null except for tokenizer_json.
  const JsonTokenizer* json_tokenizer() const { return json_.get(); }
  // Returns whether token positions are not computable, so that text is encoded into a token file.
  bool needs_token_file() const { return subwords_ || json_; }
  // Returns the id of a code point (characters only), `<unknown>` if enabled, or -1.
  std::int64_t id_of(char32_t code_point) const;
  // Returns the id. Throws DataError, with `place`, the byte offset and the character, if there is
  // none.
  std::int64_t id_at(char32_t code_point, std::string_view place, std::int64_t offset) const;

  // Throws DataError, with `place`, the byte offset and the character, for text without an id.
  std::vector<std::int64_t> encode(std::string_view text, std::string_view place) const;
  // Inverse of `encode`; `<unknown>` becomes U+FFFD. Single tokens of `bytes` may decode to invalid
  // UTF-8. Throws DataError for an id outside of the vocabulary.
  std::string decode(std::span<const std::int64_t> ids) const;

  // Returns deterministic, readable JSON that fully defines the tokenizer.
  std::string to_json() const;
  // Equal for equal tokenizers on every machine.
  std::uint64_t fingerprint() const;

  friend bool operator==(const Tokenizer& a, const Tokenizer& b);

 private:
  struct Vocabulary;
  std::vector<std::int64_t> encode_subwords(std::string_view text, std::string_view place) const;
  std::string decode_subwords(std::span<const std::int64_t> ids) const;

  // At most one is set; none: bytes.
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::shared_ptr<const SentencePieceModel> subwords_;
  std::shared_ptr<const JsonTokenizer> json_;
  std::int64_t ids_ = 0;  // vocabulary size of ids; 0: another type
};

// Streaming detokenization.

// Text of tokens that arrive one by one. A subword's text depends on its predecessors: a line's
// first space is dropped, and several tokens can form one character.
class TextStreamer {
 public:
  // `before`: tokens of the prompt.
  TextStreamer(const Tokenizer& tokenizer, std::span<const std::int64_t> before);

  // Returns the text that this token adds: complete characters for pieces and words, and possibly
  // partial ones for bytes and byte-level tokens.
  std::string push(std::int64_t token);
  // Returns the rest of an incomplete character.
  std::string finish();

 private:
  std::string emitted_text() const;

  Tokenizer tokenizer_;
  std::vector<std::int64_t> tokens_;  // the last emitted, then those held back
  std::size_t given_ = 0;             // number of emitted ones
};

}  // namespace longspan
