// Cached tokens of a text, for tokenizers whose token positions are not computable.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/core/input_file.h"
#include "framework/data/tokenization/sentencepiece_model.h"

namespace longspan {

// A position in a file: before token `token`, which starts at byte `byte`.
struct CorpusPosition {
  std::int64_t token = 0;
  std::int64_t byte = 0;

  friend bool operator==(const CorpusPosition&, const CorpusPosition&) = default;
};

// Largest number of text bytes that a token file can record for one token.
inline constexpr std::int64_t max_token_bytes = 65535;

// Identifies the input of a token file.
struct TokenFileKey {
  std::uint64_t text = 0;       // XXH3 of the file with the text
  std::uint64_t tokenizer = 0;  // Tokenizer::fingerprint
  std::uint64_t form = 0;       // of the document format
  std::int64_t file_bytes = 0;
  std::int64_t vocabulary = 0;

  friend bool operator==(const TokenFileKey&, const TokenFileKey&) = default;
};

// Metadata at the end of a token file.
struct TokenFileEnd {
  std::int64_t num_skipped = 0;  // documents without tokens
  // Range of the source text: bytes of the decompressed file, and lines.
  std::int64_t source_begin = 0;
  std::int64_t source_bytes = 0;
  std::int64_t source_lines = 0;
};

// Writes a token file, which appears at its path only when it is complete.
class TokenFileWriter {
 public:
  // Throws Failure, as below, when the file cannot be written.
  TokenFileWriter(const std::filesystem::path& path, const TokenFileKey& key);
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;
  // Deletes an unfinished file.
  ~TokenFileWriter();

  // Throws DataError when the token has more than 65,535 bytes.
  void add(const SubwordToken& token);
  // Starts a document with the next added token, and ends the previous one.
  void begin_document();
  // Counts of what was added.
  std::int64_t tokens() const;
  std::int64_t bytes() const;
  void finish(const TokenFileEnd& end = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A value; copies share the file. Reading is thread-safe. The file has 4 bytes a token, or 6 if the
// vocabulary exceeds 65,536, and 8 bytes a document, none of them in memory.
class TokenFile {
 public:
  // Reads the file once. Throws DataError when it is missing, corrupt, or has another key. Reads
  // throw DataError for an id outside of the vocabulary.
  TokenFile(const std::filesystem::path& path, const TokenFileKey& key);

  std::int64_t tokens() const { return tokens_; }
  // Text bytes of all tokens.
  std::int64_t bytes() const { return text_bytes_; }
  std::int64_t documents() const { return documents_; }
  // Returns the first token of a document; for documents(), the end of the last one.
  std::int64_t document_begin(std::int64_t document) const;
  const TokenFileEnd& end() const { return end_; }
  // XXH3 of the contents without the key.
  std::uint64_t fingerprint() const { return content_; }
  // As in Corpus.
  CorpusPosition seek(std::int64_t token) const;
  CorpusPosition read(CorpusPosition at, std::span<std::int64_t> out) const;
  // Fills `out` with the tokens from `token` on.
  void read_tokens(std::int64_t token, std::span<SubwordToken> out) const;

 private:
  std::int64_t block_begin(std::int64_t block) const;
  [[noreturn]] void throw_id_out_of_range(std::int64_t token, std::int64_t id) const;
  template <typename OfId, typename OfWidth>
  void visit(std::int64_t token, std::int64_t count, OfId&& of_id, OfWidth&& of_width) const;

  std::shared_ptr<const InputFile> file_;
  std::int64_t tokens_ = 0;
  std::int64_t id_bytes_ = 2;
  std::int64_t vocabulary_ = 0;
  std::int64_t text_bytes_ = 0;
  std::int64_t documents_ = 0;
  std::int64_t begins_at_ = 0;  // byte offset in the file
  TokenFileEnd end_;
  std::uint64_t content_ = 0;
  std::vector<std::int64_t> first_bytes_;  // text offset of each block
};

// Holds a few numbers in memory and the rest in an unlinked file, which is deleted with the object.
class SpillBuffer {
 public:
  // The file is created in `folder`.
  explicit SpillBuffer(std::filesystem::path folder, std::size_t max_owned = std::size_t{1} << 20)
      : folder_(std::move(folder)), max_in_memory_(max_owned) {}
  SpillBuffer(const SpillBuffer&) = delete;
  SpillBuffer& operator=(const SpillBuffer&) = delete;
  ~SpillBuffer();

  // Appends a number. Throws Failure, as below, when the file cannot be written or read.
  void add(std::uint64_t number);
  std::int64_t size() const { return spilled_ + std::ssize(held_); }
  // Calls f(numbers) on consecutive blocks, in order.
  void for_each(const std::function<void(std::span<const std::uint64_t>)>& f);

 private:
  void spill();

  std::filesystem::path folder_;
  std::size_t max_in_memory_;
  std::vector<std::uint64_t> held_;
  std::int64_t spilled_ = 0;
  std::FILE* file_ = nullptr;
};

}  // namespace longspan
