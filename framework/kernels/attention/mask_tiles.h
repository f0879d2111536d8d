// Evaluates the rules of a mask on tiles: ranges of visible keys, and the allowed pairs of a tile
// as bits. Positions are global.
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
// Remainder of floored division, 0 .. b - 1.
LONGSPAN_HOST_DEVICE inline std::int64_t modulo(std::int64_t a, std::int64_t b) {
  return a - floor_divide(a, b) * b;
}

// Ascending and not adjacent.
using KeyRanges = std::vector<KeyRange>;

// keys_visible_to_any: a superset of the keys of `keys` visible to some query of `queries`.
// keys_visible_to_all: a subset of the keys visible to every query. Keys in the difference need
// bits.
KeyRanges keys_visible_to_any(const Mask& mask, KeyRange queries, KeyRange keys);
KeyRanges keys_visible_to_all(const Mask& mask, KeyRange queries, KeyRange keys);

// All 64 keys of a tile.
inline constexpr std::uint64_t all_bits = ~std::uint64_t{0};

// bits[r] bit j: query first_query + r may see key first_key + j; up to 64 rows, 64 keys.
void allowed_bits(const Mask& mask,
                  std::int64_t first_query,
                  std::int64_t rows,
                  std::int64_t first_key,
                  std::uint64_t* bits);

}  // namespace longspan
