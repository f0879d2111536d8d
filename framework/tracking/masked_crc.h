// The checksum of TFRecord files.
#pragma once

#include <cstdint>
#include <string_view>

namespace longspan {

// Returns the CRC-32C (Castagnoli) of RFC 3720.
std::uint32_t crc32c(std::string_view bytes);

// Returns the CRC in TFRecord form: rotated right by 15 bits and added to a constant. It stays
// effective for data that contains checksums.
std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace longspan
