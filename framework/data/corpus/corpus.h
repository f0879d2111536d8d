// A text, in one file or in several, as a sequence of tokens.
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

// Files one after another, read as if they were one. A value; copies share them. Reading is
// thread-safe. A position's byte counts from the first file's beginning.
class Corpus {
 public:
  Corpus(CorpusFile file);
  // Of one text file, as CorpusFile has it.
  Corpus(const ConfigPath& path, const Tokenizer& tokenizer, const ProgressCallback& listener = {});
  Corpus(std::shared_ptr<const InputFile> file,
         const Tokenizer& tokenizer,
         const ProgressCallback& listener = {});
  // Of files of one tokenizer, at least one; `path` is what names them together.
  Corpus(std::string path, std::vector<CorpusFile> files);

  // Of the file, or of them all.
  const std::string& path() const { return all_->path; }
  const Tokenizer& tokenizer() const { return all_->files.front().tokenizer(); }
  const std::vector<CorpusFile>& files() const { return all_->files; }
  std::int64_t tokens() const { return all_->first_tokens.back(); }
  std::int64_t bytes() const { return all_->first_bytes.back(); }
  // As CorpusFile has them, of all files.
  bool is_text() const;
  std::uint64_t fingerprint() const;
  std::optional<std::uint64_t> whole_hash(std::int64_t most_bytes) const;

  // As CorpusFile has them.
  CorpusPosition seek(std::int64_t token) const;
  CorpusPosition begin_at(std::int64_t token) const;
  CorpusPosition read(CorpusPosition at, std::span<std::int64_t> out) const;
  // Reads n = tokens.size() pairs of a token and the one after it: `targets` is one token later
  // than `tokens`. Returns the position after the last of `tokens`, and adds the bytes of the
  // targets to `target_bytes` where they are known.
  CorpusPosition read_pairs(CorpusPosition at,
                            std::span<std::int64_t> tokens,
                            std::span<std::int64_t> targets,
                            std::int64_t& target_bytes) const;

  // The tokens of a file.
  Range file_range(std::size_t file) const {
    return {all_->first_tokens[file], all_->first_tokens[file + 1]};
  }

 private:
  struct Files {
    std::string path;
    std::vector<CorpusFile> files;
    // Of each file, and one more: where it ends.
    std::vector<std::int64_t> first_tokens = {0};
    std::vector<std::int64_t> first_bytes = {0};
  };

  // The file that a token is in; the last one for the end.
  std::size_t file_of(std::int64_t token) const;

  std::shared_ptr<const Files> all_;
};

// Corpora one after another, at least one; `path` is what names them together.
Corpus joined(const std::string& path, const std::vector<Corpus>& corpora);

// Throws DataError when there is no token to predict: fewer than two.
void require_pairs(const Corpus& corpus);

// Throws DataError on every rank when the ranks do not all see the same corpus (a node with another
// copy of the file). A collective.
void require_same_corpus(const Corpus& corpus, const Communicator& all);

}  // namespace longspan
