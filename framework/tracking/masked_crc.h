// The checksum of TFRecord files.
#pragma once

#include <cstdint>
#include <string_view>

namespace longspan {

// CRC-32C (Castagnoli), as RFC 3720 has it.
std::uint32_t crc32c(std::string_view bytes);

// As a TFRecord keeps it: turned right by 15 bits and added to a constant, so that a checksum of
// bytes that hold checksums stays a good one.
std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace longspan
