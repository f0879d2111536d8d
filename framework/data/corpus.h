// A file as a sequence of tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/data/id_file.h"
#include "framework/data/mapped_file.h"
#include "framework/data/scan_listener.h"
#include "framework/data/token_file.h"
#include "framework/data/tokenizer.h"

namespace longspan {

// A value; copies share the mapping. Nothing is ever held of the text but the piece being read:
// tokens are made on the fly. For characters, opening reads the file once, so that a bad character
// is found before training starts and not a day later, and keeps the byte offset of every 65,536th
// character, so that a read can start anywhere. Subwords are read from a file of tokens beside the
// text (text_files.h makes it). A file of ids is read as it is. Reading is thread-safe.
class Corpus {
 public:
  // Throws DataError naming the file, and the byte offset for what is not UTF-8 or not in the
  // vocabulary. The listener hears of characters, which are read here.
  Corpus(const NamedPath& path, const Tokenizer& tokenizer, const ScanListener& listener = {});
  Corpus(std::shared_ptr<const MappedFile> file,
         const Tokenizer& tokenizer,
         const ScanListener& listener = {});
  // Of subwords, with the file of tokens that was made of this text with this tokenizer.
  Corpus(std::shared_ptr<const MappedFile> file,
         const Tokenizer& tokenizer,
         std::shared_ptr<const TokenFile> encoded);

  // Of ids that this tokenizer made.
  Corpus(const IdFile& ids, const Tokenizer& tokenizer);

  const std::string& path() const { return file_->path(); }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t bytes() const { return file_->size(); }
  // Whether the file is the text itself, so that the bytes of text of a token are known.
  bool is_text() const { return !ids_; }
  // Of the size, the tokenizer and 256 blocks spread over the file (all of a file below 1 MiB).
  std::uint64_t fingerprint() const;
  // Of every byte: known of characters, which were read; bytes are read now where there are at most
  // so many, else there is none.
  std::optional<std::uint64_t> whole_hash(std::int64_t most_bytes) const;

  // The position of a token, 0 .. tokens().
  CorpusPosition seek(std::int64_t token) const;
  // Fills `out` with the tokens from `at` on and returns the position after them. Throws DataError
  // when the file has become shorter, Failure past the end.
  CorpusPosition read(CorpusPosition at, std::span<std::int64_t> out) const;
  // The same for n = tokens.size() pairs of a token and the one after it: `targets` is one token
  // later than `tokens`. Returns the position after the last of `tokens`, and adds the bytes of the
  // targets to `target_bytes` where they are known.
  CorpusPosition read_pairs(CorpusPosition at,
                            std::span<std::int64_t> tokens,
                            std::span<std::int64_t> targets,
                            std::int64_t& target_bytes) const;
  // See MappedFile::release.
  void release(std::int64_t byte_begin, std::int64_t byte_end) const;

 private:
  void index_characters(const ScanListener& listener);
  CorpusPosition read_bytes(CorpusPosition at, std::span<std::int64_t> out) const;
  CorpusPosition read_characters(CorpusPosition at, std::span<std::int64_t> out) const;

  std::shared_ptr<const MappedFile> file_;
  Tokenizer tokenizer_;
  std::shared_ptr<const TokenFile> encoded_;  // of subwords only
  std::optional<IdFile> ids_;                 // of such a file only
  std::int64_t tokens_ = 0;
  std::optional<std::uint64_t> hash_;  // of characters: of every byte
  std::vector<std::int64_t> index_;    // byte offsets of characters 0, 65536, ...
};

// Throws DataError when there is no token to predict: fewer than two.
void require_pairs(const Corpus& corpus);

// Throws DataError on every rank when the ranks do not all see the same corpus (a node with another
// copy of the file). A collective.
void require_same_corpus(const Corpus& corpus, const Communicator& all);

}  // namespace longspan
