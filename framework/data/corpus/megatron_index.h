// The index that Megatron-LM writes next to a file of token ids: FILE.idx next to FILE.bin.
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

// Of Megatron-LM's IndexedDataset (MMapIndexedDataset), version 1: the dtype of the ids and the
// documents that they are. A value; copies share the file. Reading is thread-safe. Documents
// without tokens are left out.
class MegatronIndex {
 public:
  // None where no such index is next to the ids. Reads it from its beginning to its end. Throws
  // DataError for one of another format or version, that is damaged, or does not fit the ids.
  static std::optional<MegatronIndex> next_to(const InputFile& ids);

  const std::string& path() const { return file_->path(); }
  std::int64_t id_bytes() const { return id_bytes_; }
  bool is_signed() const { return is_signed_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t documents() const { return documents_; }
  // The token with which a document begins; of documents() where the last one ends.
  std::int64_t document_begin(std::int64_t document) const;

 private:
  MegatronIndex(std::shared_ptr<const InputFile> file, const InputFile& ids);
  void read_header();
  void read_sequences(const InputFile& ids);
  void read_documents();
  // The token with which entry `entry` of the table of documents begins.
  std::int64_t begin_of(std::int64_t entry) const;

  std::shared_ptr<const InputFile> file_;
  std::int64_t id_bytes_ = 0;
  bool is_signed_ = false;
  std::int64_t sequences_ = 0;
  bool has_empty_sequences_ = false;
  std::int64_t entries_ = 0;  // of the table of documents: one more than there are
  std::int64_t tokens_ = 0;
  std::int64_t documents_ = 0;
  // The entries of documents with tokens, where others have none.
  std::shared_ptr<const std::vector<std::int64_t>> filled_;
};

}  // namespace longspan
