// Token id files of nanoGPT, Megatron-LM and NumPy.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "framework/core/input_file.h"
#include "framework/data/corpus/megatron_index.h"
#include "framework/data/id_layout.h"

namespace longspan {

// Ids as in id_layout.h. A Megatron-LM index next to the file supplies the dtype and the documents.
// A value; copies share the file. Reading is thread-safe.
class TokenIdFile {
 public:
  // Checks 256 positions spread over the file (all of a file below 1 MiB), so that opening takes
  // constant time. Throws DataError, with the file and the position, for a partial id at the end
  // and for an id not below `vocabulary`. Throws it also for raw ids that appear to be parts of
  // wider ones, and as id_layout_of and MegatronIndex do.
  TokenIdFile(std::shared_ptr<const InputFile> file, std::int64_t vocabulary, TokenDType bits);

  const std::shared_ptr<const InputFile>& file() const { return file_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t id_bytes() const { return layout_.id_bytes; }
  // Documents of the index; 0 without one.
  std::int64_t documents() const { return index_ ? index_->documents() : 0; }
  // Returns the first token of a document; for documents(), the end of the last one.
  std::int64_t document_begin(std::int64_t document) const;

  // Fills `out` with the ids from `token` on. Throws DataError for an id not below the vocabulary,
  // and when the file has become shorter.
  void read(std::int64_t token, std::span<std::int64_t> out) const;

 private:
  void spot_check(TokenDType bits) const;
  // Throws DataError where ids appear to be parts of wider ones. nonzero: number of nonzero ids per
  // token index modulo 4.
  void require_complete_ids(TokenDType bits, const std::array<std::int64_t, 4>& nonzero) const;
  [[noreturn]] void throw_data_error(std::int64_t token, std::int64_t id) const;

  std::shared_ptr<const InputFile> file_;
  std::int64_t vocabulary_;
  std::optional<MegatronIndex> index_;
  IdLayout layout_;
  std::int64_t tokens_;
};

}  // namespace longspan
