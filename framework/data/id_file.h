// A file of nothing but token ids, as nanoGPT and Megatron-LM write them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "framework/core/input_file.h"

namespace longspan {

// data.token_bits. `fitting`: 16 where the vocabulary has at most 65,536 ids, else 32.
enum class IdBits : std::uint8_t { fitting, sixteen, thirty_two };

// Unsigned ids of 16 or 32 bits, little endian, one after another. A value; copies share the
// file. Reading is thread-safe.
class IdFile {
 public:
  // Looks at 256 places that are spread over the file (at all of a file below 1 MiB), so that
  // opening does not take longer with its size. Throws DataError, naming the file and the place,
  // when its bytes are no whole number of ids, when an id is not below `vocabulary`, and with
  // `fitting` when its 16 bits look like halves of 32.
  IdFile(std::shared_ptr<const InputFile> file, std::int64_t vocabulary, IdBits bits);

  const std::shared_ptr<const InputFile>& file() const { return file_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t id_bytes() const { return id_bytes_; }

  // Fills `out` with the ids from `token` on. Throws DataError as the constructor does for an id
  // that is not below the vocabulary, and when the file has become shorter.
  void read(std::int64_t token, std::span<std::int64_t> out) const;

 private:
  void look_at_places(IdBits bits) const;
  [[noreturn]] void refuse(std::int64_t token, std::int64_t id) const;

  std::shared_ptr<const InputFile> file_;
  std::int64_t vocabulary_;
  std::int64_t id_bytes_;
  std::int64_t tokens_;
};

}  // namespace longspan
