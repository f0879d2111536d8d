// Counter-based random numbers. Each is a pure function of (seed, place, element index), so it is
// independent of how the work is sharded. Philox4x32-10 (Salmon et al. 2011) from Random123.
#pragma once

#ifdef __CUDACC__
#include <Random123/philox.h>
#endif

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

#include "framework/core/host_device.h"
#include "framework/core/range.h"

namespace longspan {

// A stream of random numbers, identified by the seed and the hash of a path of names and indices. A
// value type; children are independent streams.
class Random {
 public:
  explicit Random(std::uint64_t seed) : seed_(seed) {}

  Random child(std::uint64_t index) const { return Random(seed_, mix(place_ ^ mix(index + 1))); }
  Random child(std::string_view name) const {
    std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
    for (const char letter : name)
      hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
    return Random(seed_, mix(place_ ^ mix(hash ^ 0x9e3779b97f4a7c15u)));
  }

  // Returns the four words of block `index`: elements 4*index .. 4*index+3. Inline only for
  // kernels, since Random123's headers compile slowly.
#ifdef __CUDACC__
  LONGSPAN_HOST_DEVICE std::array<std::uint32_t, 4> block(std::uint64_t index) const {
    return philox<r123::Philox4x32>(index);
  }
#else
  std::array<std::uint32_t, 4> block(std::uint64_t index) const;
#endif
  LONGSPAN_HOST_DEVICE std::uint32_t word(std::uint64_t element) const {
    return block(element / 4)[element % 4];
  }

  // Uniform in [0, 1) with 24 bits.
  LONGSPAN_HOST_DEVICE static float uniform(std::uint32_t word) {
    return static_cast<float>(word >> 8) * 0x1p-24f;
  }
  LONGSPAN_HOST_DEVICE float uniform_at(std::uint64_t element) const {
    return uniform(word(element));
  }

  // Standard normal by Box-Muller; elements 2i and 2i+1 share a pair of words.
  double normal_at(std::uint64_t element) const {
    const auto words = block(element / 4);
    const auto pair = (element % 4) & ~std::uint64_t{1};
    const double radius =
        std::sqrt(-2.0 * std::log((static_cast<double>(words[pair]) + 1) * 0x1p-32));
    const double angle = 2 * std::numbers::pi * static_cast<double>(words[pair + 1]) * 0x1p-32;
    return radius * (element % 2 == 0 ? std::cos(angle) : std::sin(angle));
  }

  std::uint64_t seed() const { return seed_; }
  // The hash of the path: the upper half of the counter, for kernels that generate many blocks.
  std::uint64_t place() const { return place_; }

 private:
  Random(std::uint64_t seed, std::uint64_t place) : seed_(seed), place_(place) {}

  template <typename Philox4x32>
  LONGSPAN_HOST_DEVICE std::array<std::uint32_t, 4> philox(std::uint64_t index) const {
    const typename Philox4x32::ctr_type counter = {
        {low(index), high(index), low(place_), high(place_)}};
    const typename Philox4x32::key_type key = {{low(seed_), high(seed_)}};
    const auto words = Philox4x32()(counter, key);
    return {words[0], words[1], words[2], words[3]};
  }

  static std::uint64_t mix(std::uint64_t x) {  // the finalizer of SplitMix64
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  LONGSPAN_HOST_DEVICE static std::uint32_t low(std::uint64_t x) {
    return static_cast<std::uint32_t>(x);
  }
  LONGSPAN_HOST_DEVICE static std::uint32_t high(std::uint64_t x) {
    return static_cast<std::uint32_t>(x >> 32);
  }

  std::uint64_t seed_;
  std::uint64_t place_ = 0;
};

// Maps a local block [outer, middle, inner] to the full array [.., middle_total, inner_total], so
// that each element has its single-process index. Outer is the batch, middle time, inner features
// or heads.
struct ShardPlacement {
  std::int64_t outer_begin = 0;
  std::int64_t middle_begin = 0;
  std::int64_t middle_total = 1;
  std::int64_t inner_begin = 0;
  std::int64_t inner_total = 1;
  // The block's rows, relative to middle_begin, where they are not contiguous in the full array.
  Ranges middle_ranges = {};

  std::uint64_t index(std::int64_t outer, std::int64_t middle, std::int64_t inner) const {
    return static_cast<std::uint64_t>(
        ((outer_begin + outer) * middle_total + middle_begin + middle) * inner_total + inner_begin +
        inner);
  }
};

}  // namespace longspan
