// A file of token ids, as nanoGPT, Megatron-LM and NumPy write them.
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

// Ids as in id_layout.h; where an index of Megatron-LM lies next to the file, with its dtype and
// its documents. A value; copies share the file. Reading is thread-safe.
class TokenIdFile {
 public:
  // Looks at 256 places that are spread over the file (at all of a file below 1 MiB), so that
  // opening does not take longer with its size. Throws DataError, naming the file and the place,
  // when its bytes are no whole number of ids, when an id is not below `vocabulary`, and when bare
  // ids look like parts of wider ones; as id_layout_of and MegatronIndex do.
  TokenIdFile(std::shared_ptr<const InputFile> file, std::int64_t vocabulary, TokenDType bits);

  const std::shared_ptr<const InputFile>& file() const { return file_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t id_bytes() const { return layout_.id_bytes; }
  // Of an index; 0 without one.
  std::int64_t documents() const { return index_ ? index_->documents() : 0; }
  // The token with which a document begins; of documents() where the last one ends.
  std::int64_t document_begin(std::int64_t document) const;

  // Fills `out` with the ids from `token` on. Throws DataError as the constructor does for an id
  // that is not below the vocabulary, and when the file has become shorter.
  void read(std::int64_t token, std::span<std::int64_t> out) const;

 private:
  void spot_check(TokenDType bits) const;
  // Throws DataError where ids look like the parts of wider ones. nonzero: how many of the tokens
  // with each remainder by 4 are not 0.
  void require_whole_ids(TokenDType bits, const std::array<std::int64_t, 4>& nonzero) const;
  [[noreturn]] void throw_data_error(std::int64_t token, std::int64_t id) const;

  std::shared_ptr<const InputFile> file_;
  std::int64_t vocabulary_;
  std::optional<MegatronIndex> index_;
  IdLayout layout_;
  std::int64_t tokens_;
};

}  // namespace longspan
