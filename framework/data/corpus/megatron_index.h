// The index that Megatron-LM writes next to a file of token ids: FILE.idx for FILE.bin.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/input_file.h"

namespace longspan {

inline constexpr std::string_view megatron_index_magic = std::string_view("MMIDIDX\0\0", 9);

// Index of Megatron-LM's IndexedDataset (MMapIndexedDataset), version 1: dtype of the ids and
// document boundaries. A value; copies share the file. Reading is thread-safe. Documents without
// tokens are skipped.
class MegatronIndex {
 public:
  // Reads the index of a file of ids; returns nothing if there is none. Throws DataError for
  // another format or version, for a corrupt index, and for one that does not match the ids.
  static std::optional<MegatronIndex> next_to(const InputFile& ids);

  const std::string& path() const { return file_->path(); }
  std::int64_t id_bytes() const { return id_bytes_; }
  bool is_signed() const { return is_signed_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t documents() const { return documents_; }
  // Returns the first token of a document; for documents(), the end of the last one.
  std::int64_t document_begin(std::int64_t document) const;

 private:
  MegatronIndex(std::shared_ptr<const InputFile> file, const InputFile& ids);
  void read_header();
  void read_sequences(const InputFile& ids);
  void read_documents();
  // Returns the first token of entry `entry` of the document table.
  std::int64_t begin_of(std::int64_t entry) const;

  std::shared_ptr<const InputFile> file_;
  std::int64_t id_bytes_ = 0;
  bool is_signed_ = false;
  std::int64_t sequences_ = 0;
  bool has_empty_sequences_ = false;
  std::int64_t entries_ = 0;  // of the document table: one more than documents
  std::int64_t tokens_ = 0;
  std::int64_t documents_ = 0;
  // Table entries of nonempty documents, if some are empty.
  std::shared_ptr<const std::vector<std::int64_t>> filled_;
};

}  // namespace longspan
