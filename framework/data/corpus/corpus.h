// A corpus: one or more files as a sequence of tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/core/range.h"
#include "framework/data/corpus/corpus_file.h"
#include "framework/distributed/communicator.h"

namespace longspan {

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

}  // namespace longspan
