// A file as a sequence of tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/core/input_file.h"
#include "framework/data/progress.h"
#include "framework/data/token_file.h"
#include "framework/data/token_id_file.h"
#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

// A value; copies share the file. Only the chunk being read is in memory; tokens are encoded on
// demand. A character corpus is scanned once when opened, so that an invalid character fails before
// training. The scan stores the byte offset of every 65,536th character for random access. Subwords
// are read from a token file next to the text (text_files.h creates it). A file of token ids is
// read directly. Reading is thread-safe.
class CorpusFile {
 public:
  // Throws DataError, with the file and the byte offset, for text that is not UTF-8 or not in the
  // vocabulary. The listener receives the progress of the character scan.
  CorpusFile(const ConfigPath& path,
             const Tokenizer& tokenizer,
             const ProgressCallback& listener = {});
  CorpusFile(std::shared_ptr<const InputFile> file,
             const Tokenizer& tokenizer,
             const ProgressCallback& listener = {});
  // Opens text with the token file that this tokenizer encoded from it. `has_documents`: the text
  // has document boundaries.
  CorpusFile(std::shared_ptr<const InputFile> file,
             const Tokenizer& tokenizer,
             std::shared_ptr<const TokenFile> encoded,
             bool has_documents = false);

  // Opens token ids of this tokenizer.
  CorpusFile(const TokenIdFile& ids, const Tokenizer& tokenizer);

  const std::string& path() const { return file_->path(); }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  std::int64_t tokens() const { return tokens_; }
  // Bytes of text, or of a file of ids.
  std::int64_t bytes() const { return encoded_ ? encoded_->bytes() : file_->size(); }
  // Returns whether the file is the text itself, so that the text bytes of a token are known.
  bool is_text() const { return !ids_; }
  // Hash of the size, the tokenizer and 256 blocks spread over the file (all of a file below 1
  // MiB).
  std::uint64_t fingerprint() const;
  // Returns the hash of every byte. It is already computed for characters. Otherwise this reads the
  // file if it has at most `max_bytes` bytes, and else returns nothing.
  std::optional<std::uint64_t> full_hash(std::int64_t max_bytes) const;

  // Number of documents of text or ids with known documents; 0 otherwise.
  std::int64_t documents() const;
  // Returns the first token of a document; for documents(), the end of the last one.
  std::int64_t document_begin(std::int64_t document) const;

  // Returns the position of a token, 0 .. tokens().
  CorpusPosition seek(std::int64_t token) const;
  // Returns the position of a token, without a seek for a token file: the byte counts from this
  // token.
  CorpusPosition begin_at(std::int64_t token) const {
    return encoded_ ? CorpusPosition{token, 0} : seek(token);
  }
  // Fills `out` with the tokens from `at` and returns the position after them. Throws DataError
  // when the file has become shorter, and Failure past the end.
  CorpusPosition read(CorpusPosition at, std::span<std::int64_t> out) const;

 private:
  void index_characters(const ProgressCallback& listener);
  CorpusPosition read_bytes(CorpusPosition at, std::span<std::int64_t> out) const;
  CorpusPosition read_characters(CorpusPosition at, std::span<std::int64_t> out) const;

  std::shared_ptr<const InputFile> file_;
  Tokenizer tokenizer_;
  std::shared_ptr<const TokenFile> encoded_;  // the token file, if any
  bool has_documents_ = false;
  std::optional<TokenIdFile> ids_;  // only for a file of ids
  std::int64_t tokens_ = 0;
  std::optional<std::uint64_t> hash_;  // of every byte; only for characters
  std::vector<std::int64_t> index_;    // byte offsets of characters 0, 65536, ...
};

}  // namespace longspan
