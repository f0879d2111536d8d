// The checksum of HDF5's Fletcher32 filter.
#pragma once

#include <cstddef>
#include <cstdint>

namespace longspan {

// Equal to HDF5's checksum of these bytes, and many times faster.
std::uint32_t fletcher32(const std::byte* bytes, std::size_t size);

}  // namespace longspan
