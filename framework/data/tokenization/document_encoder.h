// Tokens of single documents.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "framework/data/token_file.h"
#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

// Incremented when a tokenizer's output for equal text changes.
inline constexpr int encoding_version = 5;

// Marks bytes for which the tokenizer produces no token.
inline constexpr std::int64_t no_token = -1;

// Calls sink(token) for the tokens of a text. Their bytes add up to those of the text. Ids are
// those of Tokenizer::encode. `offset`: byte of `place` at which the text starts.
// `is_continuation`: it continues a document. Throws DataError, with `place` and the byte, for
// invalid UTF-8 that the tokenizer rejects and for text without an id.
void encode_document(const Tokenizer& tokenizer,
                     std::string_view text,
                     std::string_view place,
                     std::int64_t offset,
                     bool is_continuation,
                     const std::function<void(const SubwordToken&)>& sink);

// Returns the text bytes of the first `count` tokens. Throws as above.
std::int64_t bytes_of_tokens(const Tokenizer& tokenizer,
                             std::string_view text,
                             std::int64_t count,
                             std::string_view place);

// Writes documents to a token file. Bytes without a token are counted for the next token, and at a
// document's end for its last one. A document without tokens is skipped.
class DocumentEncoder {
 public:
  // `end_of_text` is appended to each document. `is_continuation`: the first document continues one
  // of the previous file, where it has tokens if `has_tokens`.
  DocumentEncoder(TokenFileWriter& writer,
                  std::optional<std::int64_t> end_of_text,
                  bool is_continuation,
                  bool has_tokens)
      : writer_(writer),
        end_of_text_(end_of_text),
        is_open_(is_continuation),
        has_tokens_(is_continuation && has_tokens) {}

  // Ends the previous document and starts one.
  void begin();
  void push(SubwordToken token);
  void end();
  // Writes buffered tokens, within a document.
  void flush();
  // Number of documents without tokens.
  std::int64_t num_skipped() const { return left_out_; }

 private:
  void consume_unseen(SubwordToken& token);

  TokenFileWriter& writer_;
  std::optional<std::int64_t> end_of_text_;
  std::optional<SubwordToken> held_;
  std::int64_t unseen_ = 0;
  std::int64_t left_out_ = 0;
  bool is_open_;
  bool has_tokens_;
};

}  // namespace longspan
