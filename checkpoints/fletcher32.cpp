#include "checkpoints/fletcher32.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace longspan {
namespace {

constexpr std::size_t lanes = 32;
// Largest number of rows before the 32-bit second-order sums can overflow.
constexpr std::size_t max_rows = 256;

// Sum modulo 65535. HDF5 represents 0 as 65535 unless all words are 0.
std::uint32_t folded(std::uint64_t sum) {
  return sum == 0 ? 0 : static_cast<std::uint32_t>((sum - 1) % 65535 + 1);
}

std::uint16_t big_endian(std::uint16_t word) {
  return static_cast<std::uint16_t>(word << 8 | word >> 8);
}

}  // namespace

std::uint32_t fletcher32(const std::byte* bytes, std::size_t size) {
  std::uint64_t first = 0, second = 0;  // sum of the words, sum of the partial sums
  std::size_t words = size / 2;
  while (words >= lanes) {
    // Rows of `lanes` words. Each lane sums its column and the column's partial sums.
    const std::size_t rows = std::min(words / lanes, max_rows);
    std::array<std::uint32_t, lanes> sums{}, sums_of_sums{};
    for (std::size_t row = 0; row < rows; ++row) {
      std::array<std::uint16_t, lanes> word;
      std::memcpy(word.data(), bytes + row * sizeof(word), sizeof(word));
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        sums[lane] += big_endian(word[lane]);
        sums_of_sums[lane] += sums[lane];
      }
    }
    second += rows * lanes * first;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      // A word counts once for each word from its position to the end.
      first += sums[lane];
      second += lanes * std::uint64_t{sums_of_sums[lane]} - lane * std::uint64_t{sums[lane]};
    }
    first = folded(first);
    second = folded(second);
    bytes += rows * lanes * 2;
    words -= rows * lanes;
  }
  for (; words > 0; --words, bytes += 2) {
    std::uint16_t word = 0;
    std::memcpy(&word, bytes, 2);
    first += big_endian(word);
    second += first;
  }
  if (size % 2 != 0) {
    first += std::to_integer<std::uint64_t>(*bytes) << 8;
    second += first;
  }
  return folded(second) << 16 | folded(first);
}

}  // namespace longspan
