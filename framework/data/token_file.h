// The tokens of a text in a file, for tokenizers whose tokens have no place that can be reckoned.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/data/mapped_file.h"
#include "framework/data/subword_model.h"

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
  std::uint64_t text = 0;       // XXH3 of the text
  std::uint64_t tokenizer = 0;  // Tokenizer::fingerprint
  std::int64_t text_bytes = 0;
  std::int64_t vocabulary = 0;

  friend bool operator==(const TokenFileKey&, const TokenFileKey&) = default;
};

// Writes a file of tokens, at whose path it is seen once it is whole.
class TokenFileWriter {
 public:
  // Throws Failure, here and below, when the file cannot be written.
  TokenFileWriter(std::filesystem::path path, const TokenFileKey& key);
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;
  // What was not finished is removed.
  ~TokenFileWriter();

  // The bytes of a token are at most 65,535. Throws DataError when they are more.
  void add(const SubwordToken& token);
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A value; copies share the mapping. Reading is thread-safe. Each token takes 4 bytes, or 6 where
// the vocabulary is larger than 65,536.
class TokenFile {
 public:
  // Reads it once. Throws DataError when it is missing, is not of this key, or is damaged.
  TokenFile(const std::filesystem::path& path, const TokenFileKey& key);

  std::int64_t tokens() const { return tokens_; }
  // Of the text that they were made of.
  std::int64_t text_bytes() const { return text_bytes_; }
  // As Corpus has them.
  CorpusPosition seek(std::int64_t token) const;
  CorpusPosition read(CorpusPosition at, std::span<std::int64_t> out) const;
  void release(std::int64_t byte_begin, std::int64_t byte_end) const;

 private:
  std::int64_t block_begin(std::int64_t block) const;

  std::shared_ptr<const MappedFile> file_;
  std::int64_t tokens_ = 0;
  std::int64_t id_bytes_ = 2;
  std::int64_t text_bytes_ = 0;
  std::vector<std::int64_t> first_bytes_;  // of the text, where each block begins
};

}  // namespace longspan
