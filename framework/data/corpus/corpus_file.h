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

// A value; copies share the file. Nothing is ever held of the text but the piece being read:
// tokens are made on the fly. For characters, opening reads the file once, so that a bad character
// is found before training starts and not a day later, and keeps the byte offset of every 65,536th
// character, so that a read can start anywhere. Subwords are read from a file of tokens beside the
// text (text_files.h makes it). A file of ids is read as it is. Reading is thread-safe.
class CorpusFile {
 public:
  // Throws DataError naming the file, and the byte offset for what is not UTF-8 or not in the
  // vocabulary. The listener hears of characters, which are read here.
  CorpusFile(const ConfigPath& path,
             const Tokenizer& tokenizer,
             const ProgressCallback& listener = {});
  CorpusFile(std::shared_ptr<const InputFile> file,
             const Tokenizer& tokenizer,
             const ProgressCallback& listener = {});
  // With the file of tokens that was made of this text with this tokenizer, and whether the text
  // has documents, or is one for want of any.
  CorpusFile(std::shared_ptr<const InputFile> file,
             const Tokenizer& tokenizer,
             std::shared_ptr<const TokenFile> encoded,
             bool has_documents = false);

  // Of ids that this tokenizer made.
  CorpusFile(const TokenIdFile& ids, const Tokenizer& tokenizer);

  const std::string& path() const { return file_->path(); }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  std::int64_t tokens() const { return tokens_; }
  // Of text, or of a file of ids.
  std::int64_t bytes() const { return encoded_ ? encoded_->bytes() : file_->size(); }
  // Whether the file is the text itself, so that the bytes of text of a token are known.
  bool is_text() const { return !ids_; }
  // Of the size, the tokenizer and 256 blocks spread over the file (all of a file below 1 MiB).
  std::uint64_t fingerprint() const;
  // Of every byte: known of characters, which were read; bytes are read now where there are at most
  // so many, else there is none.
  std::optional<std::uint64_t> whole_hash(std::int64_t most_bytes) const;

  // Of texts and ids whose documents are known; 0 of others.
  std::int64_t documents() const;
  // The token with which a document begins; of documents() where the last one ends.
  std::int64_t document_begin(std::int64_t document) const;

  // The position of a token, 0 .. tokens().
  CorpusPosition seek(std::int64_t token) const;
  // The same, faster where tokens are in a file of their own: its byte counts from there.
  CorpusPosition begin_at(std::int64_t token) const {
    return encoded_ ? CorpusPosition{token, 0} : seek(token);
  }
  // Fills `out` with the tokens from `at` on and returns the position after them. Throws DataError
  // when the file has become shorter, Failure past the end.
  CorpusPosition read(CorpusPosition at, std::span<std::int64_t> out) const;

 private:
  void index_characters(const ProgressCallback& listener);
  CorpusPosition read_bytes(CorpusPosition at, std::span<std::int64_t> out) const;
  CorpusPosition read_characters(CorpusPosition at, std::span<std::int64_t> out) const;

  std::shared_ptr<const InputFile> file_;
  Tokenizer tokenizer_;
  std::shared_ptr<const TokenFile> encoded_;  // where the text is read from one
  bool has_documents_ = false;
  std::optional<TokenIdFile> ids_;  // of such a file only
  std::int64_t tokens_ = 0;
  std::optional<std::uint64_t> hash_;  // of characters: of every byte
  std::vector<std::int64_t> index_;    // byte offsets of characters 0, 65536, ...
};

}  // namespace longspan
