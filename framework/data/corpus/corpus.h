// A corpus: one or more files as a sequence of tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/core/input_file.h"
#include "framework/core/range.h"
#include "framework/data/progress.h"
#include "framework/data/token_file.h"
#include "framework/data/token_id_file.h"
#include "framework/data/tokenization/tokenizer.h"
#include "framework/distributed/communicator.h"

namespace longspan {

// A file as a sequence of tokens.

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

// Concatenates files. A value; copies share the files. Reading is thread-safe. The byte of a
// position counts from the beginning of the first file.
class Corpus {
 public:
  Corpus(CorpusFile file);
  // Opens one text file, as CorpusFile.
  Corpus(const ConfigPath& path, const Tokenizer& tokenizer, const ProgressCallback& listener = {});
  Corpus(std::shared_ptr<const InputFile> file,
         const Tokenizer& tokenizer,
         const ProgressCallback& listener = {});
  // Concatenates at least one file of the same tokenizer. `path`: name of the whole, for messages.
  Corpus(std::string path, std::vector<CorpusFile> files);

  // Path of the file, or name of the whole.
  const std::string& path() const { return all_->path; }
  const Tokenizer& tokenizer() const { return all_->files.front().tokenizer(); }
  const std::vector<CorpusFile>& files() const { return all_->files; }
  std::int64_t tokens() const { return all_->first_tokens.back(); }
  std::int64_t bytes() const { return all_->first_bytes.back(); }
  // As in CorpusFile, over all files.
  bool is_text() const;
  std::uint64_t fingerprint() const;
  std::optional<std::uint64_t> full_hash(std::int64_t max_bytes) const;

  // As in CorpusFile.
  CorpusPosition seek(std::int64_t token) const;
  CorpusPosition begin_at(std::int64_t token) const;
  CorpusPosition read(CorpusPosition at, std::span<std::int64_t> out) const;
  // Reads n = tokens.size() pairs of a token and its successor: `targets` is shifted by one token
  // from `tokens`. Returns the position after the last of `tokens`. Adds the bytes of the targets
  // to `target_bytes` where they are known.
  CorpusPosition read_pairs(CorpusPosition at,
                            std::span<std::int64_t> tokens,
                            std::span<std::int64_t> targets,
                            std::int64_t& target_bytes) const;

  // Returns the range of tokens of a file.
  Range file_range(std::size_t file) const {
    return {all_->first_tokens[file], all_->first_tokens[file + 1]};
  }

 private:
  struct Files {
    std::string path;
    std::vector<CorpusFile> files;
    // Start of each file, and the end of the last.
    std::vector<std::int64_t> first_tokens = {0};
    std::vector<std::int64_t> first_bytes = {0};
  };

  // Returns the file that contains a token; the last file for the end position.
  std::size_t file_of(std::int64_t token) const;

  std::shared_ptr<const Files> all_;
};

// Concatenates at least one corpus. `path`: name of the whole, for messages.
Corpus joined(const std::string& path, const std::vector<Corpus>& corpora);

// Throws DataError when the corpus has fewer than two tokens and so nothing to predict.
void require_pairs(const Corpus& corpus);

// Throws DataError on every rank when the ranks read different corpora, such as a stale copy on one
// node. Collective.
void require_same_corpus(const Corpus& corpus, const Communicator& all);

// Documents of a corpus by index.

// A value; copies share the corpus. A file without documents is cut into chunks of `piece` tokens;
// the last one may be shorter. Memory use does not depend on the number of documents.
class DocumentList {
 public:
  DocumentList(Corpus corpus, std::int64_t piece);

  const Corpus& corpus() const { return corpus_; }
  std::int64_t count() const { return firsts_.back(); }
  // Returns the tokens of a document, at least one.
  Range at(std::int64_t document) const;
  // Returns the document that contains a token.
  std::int64_t document_of(std::int64_t token) const;

 private:
  Corpus corpus_;
  std::int64_t piece_;
  std::vector<std::int64_t> firsts_ = {0};  // first document of each file, and the total
};

}  // namespace longspan
