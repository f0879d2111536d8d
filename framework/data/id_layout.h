// Layout of token ids in a file.
#pragma once

#include <cstdint>

#include "framework/core/input_file.h"

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

}  // namespace longspan
