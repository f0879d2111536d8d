// What the rules of a mask say about tiles: where keys that may be seen lie, and which pairs of a
// tile are allowed, as bits. Positions are global.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/core/host_device.h"
#include "framework/kernels/attention/mask.h"

namespace longspan {

// Positions [begin, end).
struct KeyRange {
  std::int64_t begin;
  std::int64_t end;
};
LONGSPAN_HOST_DEVICE inline std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}
// The remainder that goes with it, 0 .. b - 1.
LONGSPAN_HOST_DEVICE inline std::int64_t modulo(std::int64_t a, std::int64_t b) {
  return a - floor_divide(a, b) * b;
}

// Ascending and not touching.
using KeyRanges = std::vector<KeyRange>;

// Of `keys`, those that some query of `queries` may see, and perhaps others; and of `keys`, keys
// that every query of them may see, perhaps not all. Between the two lies what only bits can tell.
KeyRanges keys_seen_by_any(const Mask& mask, KeyRange queries, KeyRange keys);
KeyRanges keys_seen_by_all(const Mask& mask, KeyRange queries, KeyRange keys);

// Every key of a tile.
inline constexpr std::uint64_t all_bits = ~std::uint64_t{0};

// bits[r] bit j: query first_query + r may see key first_key + j; up to 64 rows, 64 keys.
void allowed_bits(const Mask& mask,
                  std::int64_t first_query,
                  std::int64_t rows,
                  std::int64_t first_key,
                  std::uint64_t* bits);

}  // namespace longspan
