// Token id files of nanoGPT, Megatron-LM and NumPy.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/input_file.h"
#include "framework/data/corpus/megatron_index.h"

namespace longspan {

// data.token_dtype. `fitting`: 16 bits if the vocabulary has at most 65,536 ids, else 32.
enum class TokenDType : std::uint8_t { fitting, sixteen, thirty_two, sixty_four };

// Contiguous little-endian integers up to the end of the file.
struct IdLayout {
  std::int64_t begin = 0;     // bytes before the first id
  std::int64_t id_bytes = 0;  // 1, 2, 4 or 8
  bool is_signed = false;
  bool is_stated = false;  // by a header rather than by data.token_dtype
};

// Returns the layout of a NumPy .npy file, which must be a one-dimensional integer array; otherwise
// raw ids of `bits`. Throws DataError for other formats, such as archives and text, and for a
// header that contradicts the file or `bits`.
IdLayout id_layout_of(const InputFile& file, std::int64_t vocabulary, TokenDType bits);

// Throws DataError when `bits` requests another width than `by` ("its header") states.
void require_id_bits(const InputFile& file,
                     TokenDType bits,
                     std::int64_t stated_bytes,
                     const char* by);

// Ids in an IdLayout. A Megatron-LM index next to the file supplies the dtype and the documents.
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

// Calls sink(id, begin, end) for each number of a text, with the byte range of its digits. Throws
// DataError, with `place` and the word, for anything but a number below `vocabulary`.
void for_each_id(std::string_view text,
                 std::int64_t vocabulary,
                 std::string_view place,
                 const std::function<void(std::int64_t, std::size_t, std::size_t)>& sink);

// Parses "15 3 7" into 15, 3 and 7. Throws as for_each_id.
std::vector<std::int64_t> parse_token_ids(std::string_view text,
                                          std::int64_t vocabulary,
                                          std::string_view place);

// Formats ids as " 15 3 7". Each has a leading blank, so that texts can be concatenated.
std::string format_token_ids(std::span<const std::int64_t> ids);

}  // namespace longspan
