// The tokens of one document by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "framework/data/token_file.h"
#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

// Raised when a tokenizer makes other tokens of the same text than it did before.
inline constexpr int encoding_version = 5;

// In place of an id: the bytes are such as the tokenizer sees nothing in.
inline constexpr std::int64_t no_token = -1;

// Calls sink(token) for the tokens of a text, whose bytes add up to its own. Ids are those of
// Tokenizer::encode. Throws DataError, naming `place` and the byte of it, where `offset` is that of
// the text's first (`is_continuation`: what is before it belongs to the same document), for what is
// not UTF-8 where the tokenizer wants it, or has no id.
void encode_document(const Tokenizer& tokenizer,
                     std::string_view text,
                     std::string_view place,
                     std::int64_t offset,
                     bool is_continuation,
                     const std::function<void(const SubwordToken&)>& sink);

// The bytes of a text that its first `count` tokens are of, as above.
std::int64_t bytes_of_tokens(const Tokenizer& tokenizer,
                             std::string_view text,
                             std::int64_t count,
                             std::string_view place);

// Documents on their way to a file of tokens. Bytes in which the tokenizer sees nothing belong to
// the token after them, and at a document's end to its last one. A document without tokens is left
// out.
class DocumentEncoder {
 public:
  // `end_of_text` is added behind each document. `is_continuation`: a document is under way, which
  // has tokens in the file before this one or has not.
  DocumentEncoder(TokenFileWriter& writer,
                  std::optional<std::int64_t> end_of_text,
                  bool is_continuation,
                  bool has_tokens)
      : writer_(writer),
        end_of_text_(end_of_text),
        is_open_(is_continuation),
        has_tokens_(is_continuation && has_tokens) {}

  // Ends the document before it.
  void begin();
  void push(SubwordToken token);
  void end();
  // Gives what it holds, in the middle of a document.
  void flush();
  // Documents that had no tokens.
  std::int64_t num_skipped() const { return left_out_; }

 private:
  void take_unseen(SubwordToken& token);

  TokenFileWriter& writer_;
  std::optional<std::int64_t> end_of_text_;
  std::optional<SubwordToken> held_;
  std::int64_t unseen_ = 0;
  std::int64_t left_out_ = 0;
  bool is_open_;
  bool has_tokens_;
};

}  // namespace longspan
