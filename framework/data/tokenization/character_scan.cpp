#include "framework/data/tokenization/character_scan.h"

namespace longspan {

void throw_invalid_utf8(std::string_view place,
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

}  // namespace longspan
