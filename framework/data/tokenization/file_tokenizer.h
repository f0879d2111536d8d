// Encodes a text file in resumable parts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "framework/data/corpus/document_reader.h"
#include "framework/data/progress.h"
#include "framework/data/tokenization/document_encoder.h"
#include "framework/data/tokenization/token_cache.h"

namespace longspan {

// Removes the parts of a token file, including incomplete ones of killed processes.
void remove_parts_of(const std::filesystem::path& tokens);

// Creates one token file, as described at tokenize_file.
class FileTokenizer {
 public:
  FileTokenizer(std::shared_ptr<const InputFile> text,
                const DocumentFormat& form,
                const Tokenizer& tokenizer,
                std::filesystem::path path,
                const TokenFileKey& key,
                const ProgressCallback& heard,
                const TokenizationOptions& making);
  FileTokenizer(const FileTokenizer&) = delete;
  FileTokenizer& operator=(const FileTokenizer&) = delete;
  ~FileTokenizer();

  // Returns the text bytes whose tokens already existed. Rethrows errors, unless another process
  // has completed the file.
  std::int64_t run();

 private:
  // Documents that are encoded together, and the reader's position after them.
  struct Batch {
    std::vector<Document> documents;
    std::int64_t bytes = 0;
    FilePosition place;
    std::int64_t num_skipped = 0;
    std::int64_t at = 0;
  };
  using Tokens = std::vector<SubwordToken>;

  std::filesystem::path part_path(std::size_t part) const;
  std::int64_t find_parts();
  void make_parts();
  void write_part();
  void consume_batch();
  Batch read_batch();
  void encode(Batch& batch, DocumentEncoder& queue);
  void encode_directly(const Document& document, DocumentEncoder& queue) const;
  void require_next(const TokenFile& part, std::int64_t begin, bool is_last) const;
  void join_parts() const;
  void append(const TokenFile& part, TokenFileWriter& writer) const;
  void finish();

  std::shared_ptr<const InputFile> text_;
  const Tokenizer& tokenizer_;
  std::filesystem::path path_;
  TokenFileKey key_;
  const ProgressCallback& on_progress_;
  TokenizationOptions making_;
  std::optional<std::int64_t> end_of_text_;
  DocumentReader reader_;
  std::size_t parts_ = 0;      // completed
  FilePosition place_;         // end of the completed parts
  bool has_tokens_ = false;    // the parts have tokens
  std::int64_t left_out_ = 0;  // skipped by the reader, before batch_
  Batch batch_;                // next to encode; empty at the end
  std::future<Batch> later_;   // being read
};

}  // namespace longspan
