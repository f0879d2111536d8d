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
    throw DataError("{}: byte {}: the text ends within a character (bytes{}); UTF-8 is needed",
                    place,
                    offset,
                    found);
  throw DataError(
      "{}: byte {}: found bytes{}, which are not UTF-8; convert the file (iconv), or use "
      "data.tokenizer.type: byte",
      place,
      offset,
      found);
}

}  // namespace longspan
