// Scans all characters of a file in order, in constant memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/input_file.h"
#include "framework/core/utf8.h"
#include "framework/data/progress.h"

namespace longspan {

// Throws DataError for bytes of `place` that are not UTF-8. `bytes` begins at `offset`.
[[noreturn]] inline void throw_invalid_utf8(std::string_view place,
                                            std::int64_t offset,
                                            std::string_view bytes,
                                            const Utf8Character& character) {
  std::string found;
  for (const char byte : bytes.substr(0, static_cast<std::size_t>(character.width)))
    found += fmt::format(" {:02x}", static_cast<unsigned char>(byte));
  if (character.status == Utf8Status::incomplete)
    throw DataError(
        "{}: byte {}: expected UTF-8, found an incomplete character at the end "
        "(bytes{})",
        place,
        offset,
        found);
  throw DataError(
      "{}: byte {}: expected UTF-8, found bytes{}; convert the file with iconv, or set "
      "data.tokenizer.type to byte",
      place,
      offset,
      found);
}

// Calls `f(code_point, offset)` for each character of `text`, which starts at byte `offset` of
// `place`. If `last` is false, an incomplete character at the end is left. Returns the bytes
// consumed.
template <typename F>
std::size_t for_each_character(
    std::string_view text, std::int64_t offset, bool last, std::string_view place, F&& f) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::int64_t here = offset + static_cast<std::int64_t>(at);
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) {  // fast path: most text is ASCII
      f(static_cast<char32_t>(byte), here);
      ++at;
      continue;
    }
    const Utf8Character character = decode_utf8(text.substr(at));
    if (character.status == Utf8Status::incomplete && !last) return at;
    if (character.status != Utf8Status::valid)
      throw_invalid_utf8(place, here, text.substr(at), character);
    f(character.code_point, here);
    at += static_cast<std::size_t>(character.width);
  }
  return at;
}

struct IgnoreBytes {
  void operator()(std::string_view) const {}
};

// Scans a file. `of_bytes(text)` receives all of its bytes in consecutive chunks. Throws DataError
// for invalid UTF-8, and what the listener throws.
template <typename F, typename OfBytes = IgnoreBytes>
void for_each_character(const InputFile& file,
                        const ProgressCallback& listener,
                        F&& f,
                        OfBytes&& of_bytes = {}) {
  constexpr std::int64_t piece = std::int64_t{1} << 18;
  std::vector<char> buffer(static_cast<std::size_t>(std::min(piece, file.size())));
  for (std::int64_t at = 0; at < file.size();) {
    const std::int64_t length = std::min(piece, file.size() - at);
    const std::span<char> bytes = std::span(buffer).first(static_cast<std::size_t>(length));
    file.copy(at, bytes);
    const auto used = for_each_character(std::string_view(bytes.data(), bytes.size()),
                                         at,
                                         at + length == file.size(),
                                         file.path(),
                                         f);
    of_bytes(std::string_view(bytes.data(), used));
    at += static_cast<std::int64_t>(used);
    if (listener) listener({file.path(), at, file.size()});
  }
}

}  // namespace longspan
