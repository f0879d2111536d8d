// How token ids lie in a file.
#pragma once

#include <cstdint>

#include "framework/core/input_file.h"

namespace longspan {

// data.token_dtype. `fitting`: 16 where the vocabulary has at most 65,536 ids, else 32.
enum class TokenDType : std::uint8_t { fitting, sixteen, thirty_two, sixty_four };

// Whole numbers, little endian, one after another up to the end of the file.
struct IdLayout {
  std::int64_t begin = 0;     // bytes before the first
  std::int64_t id_bytes = 0;  // 1, 2, 4 or 8
  bool is_signed = false;
  bool is_stated = false;  // by a header, and not by data.token_dtype
};

// That of NumPy's .npy where the file begins as one, which must be an array of whole numbers along
// one axis; else bare ids of `bits`. Throws DataError for another format of files, such
// as archives and text, and for a header that does not agree with the file or with `bits`.
IdLayout id_layout_of(const InputFile& file, std::int64_t vocabulary, TokenDType bits);

// Throws DataError where `bits` asks for another width than `stated`, by `by` ("its header").
void require_id_bits(const InputFile& file,
                     TokenDType bits,
                     std::int64_t stated_bytes,
                     const char* by);

}  // namespace longspan
