// The tokens of a text in a file, for tokenizers whose tokens have no place that can be reckoned.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/core/input_file.h"
#include "framework/data/tokenization/sentencepiece_model.h"

namespace longspan {

// A place in a file: before token `token`, which begins at byte `byte`.
struct CorpusPosition {
  std::int64_t token = 0;
  std::int64_t byte = 0;

  friend bool operator==(const CorpusPosition&, const CorpusPosition&) = default;
};

// That a file of tokens can count of one of them.
inline constexpr std::int64_t most_token_bytes = 65535;

// What a file of tokens was made of.
struct TokenFileKey {
  std::uint64_t text = 0;       // XXH3 of the file with the text
  std::uint64_t tokenizer = 0;  // Tokenizer::fingerprint
  std::uint64_t form = 0;       // of its documents
  std::int64_t file_bytes = 0;
  std::int64_t vocabulary = 0;

  friend bool operator==(const TokenFileKey&, const TokenFileKey&) = default;
};

// What a file of tokens says beside them.
struct TokenFileEnd {
  std::int64_t num_skipped = 0;  // documents without tokens
  // Where the text that it was made of begins and ends: bytes of the unpacked file, and lines.
  std::int64_t source_begin = 0;
  std::int64_t source_bytes = 0;
  std::int64_t source_lines = 0;
};

// Writes a file of tokens, at whose path it is seen once it is whole.
class TokenFileWriter {
 public:
  // Throws Failure, here and below, when the file cannot be written.
  TokenFileWriter(const std::filesystem::path& path, const TokenFileKey& key);
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;
  // What was not finished is removed.
  ~TokenFileWriter();

  // The bytes of a token are at most 65,535. Throws DataError when they are more.
  void add(const SubwordToken& token);
  // With the token that is added next a document begins, which ends where another begins.
  void begin_document();
  // Of what was added.
  std::int64_t tokens() const;
  std::int64_t bytes() const;
  void finish(const TokenFileEnd& end = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A value; copies share the file. Reading is thread-safe. Each token takes 4 bytes, or 6 where
// the vocabulary is larger than 65,536; each document 8, of which none are in memory.
class TokenFile {
 public:
  // Reads it once. Throws DataError when it is missing, is not of this key, or is damaged; so does
  // reading for an id that is not in the vocabulary.
  TokenFile(const std::filesystem::path& path, const TokenFileKey& key);

  std::int64_t tokens() const { return tokens_; }
  // Of text, all tokens together.
  std::int64_t bytes() const { return text_bytes_; }
  std::int64_t documents() const { return documents_; }
  // The token with which a document begins; of documents() where the last one ends.
  std::int64_t document_begin(std::int64_t document) const;
  const TokenFileEnd& end() const { return end_; }
  // XXH3 of all that is in it beside the key.
  std::uint64_t fingerprint() const { return content_; }
  // As Corpus has them.
  CorpusPosition seek(std::int64_t token) const;
  CorpusPosition read(CorpusPosition at, std::span<std::int64_t> out) const;
  // Fills `out` with the tokens from `token` on.
  void read_tokens(std::int64_t token, std::span<SubwordToken> out) const;

 private:
  std::int64_t block_begin(std::int64_t block) const;
  [[noreturn]] void refuse_id(std::int64_t token, std::int64_t id) const;
  template <typename OfId, typename OfWidth>
  void visit(std::int64_t token, std::int64_t count, OfId&& of_id, OfWidth&& of_width) const;

  std::shared_ptr<const InputFile> file_;
  std::int64_t tokens_ = 0;
  std::int64_t id_bytes_ = 2;
  std::int64_t vocabulary_ = 0;
  std::int64_t text_bytes_ = 0;
  std::int64_t documents_ = 0;
  std::int64_t begins_at_ = 0;  // byte of the file
  TokenFileEnd end_;
  std::uint64_t content_ = 0;
  std::vector<std::int64_t> first_bytes_;  // of the text, where each block begins
};

}  // namespace longspan
