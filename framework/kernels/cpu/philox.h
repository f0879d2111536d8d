// Vectorized Philox4x32-10 (Salmon et al. 2011): one block for each 64-bit lane.
#pragma once

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "framework/core/random.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {

// Writes the words of blocks [first, first + count) of `random` consecutively: 4 * count words,
// those of `random.block(first + i)`, or with a step of `random.block(first + i * step)`.
inline void philox_blocks(const Random& random,
                          std::uint64_t first,
                          std::int64_t count,
                          std::uint32_t* words,
                          std::uint64_t step = 1) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<std::uint64_t> wide;
  const hn::Repartition<std::uint32_t, decltype(wide)> narrow;
  const auto multiplier0 = hn::BitCast(narrow, hn::Set(wide, 0xD2511F53u));
  const auto multiplier1 = hn::BitCast(narrow, hn::Set(wide, 0xCD9E8D57u));
  const auto low_half = hn::Set(wide, 0xffffffffu);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
  std::array<std::array<std::uint32_t, 2>, 10> keys;
  keys[0] = {static_cast<std::uint32_t>(random.seed()),
             static_cast<std::uint32_t>(random.seed() >> 32)};
  for (std::size_t round = 1; round < keys.size(); ++round)
    keys[round] = {keys[round - 1][0] + 0x9E3779B9u, keys[round - 1][1] + 0xBB67AE85u};

  // Only the lower half of a lane is significant, except in a product, where the upper half is a
  // word of the next round.
  alignas(64) std::uint64_t steps[HWY_MAX_BYTES / sizeof(std::uint64_t)];
  for (std::int64_t lane = 0; lane < lanes; ++lane)
    steps[lane] = static_cast<std::uint64_t>(lane) * step;
  const auto ahead = hn::Load(wide, steps);
  const auto write = [&](std::int64_t i, std::uint32_t* to) {
    const auto index = hn::Add(hn::Set(wide, first + static_cast<std::uint64_t>(i) * step), ahead);
    auto c0 = index;
    auto c1 = hn::ShiftRight<32>(index);
    auto c2 = hn::Set(wide, random.place());
    auto c3 = hn::ShiftRight<32>(c2);
    for (const auto& key : keys) {
      const auto product0 = hn::MulEven(hn::BitCast(narrow, c0), multiplier0);
      const auto product1 = hn::MulEven(hn::BitCast(narrow, c2), multiplier1);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product1), c1), hn::Set(wide, key[0]));
      c1 = product1;
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), c3), hn::Set(wide, key[1]));
      c3 = product0;
    }
    const auto front = hn::Or(hn::And(c0, low_half), hn::ShiftLeft<32>(c1));
    const auto back = hn::Or(hn::And(c2, low_half), hn::ShiftLeft<32>(c3));
    hn::StoreInterleaved2(front, back, wide, reinterpret_cast<std::uint64_t*>(to));
  };
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) write(i, words + 4 * i);
  if (i >= count) return;
  alignas(64) std::uint32_t last[4 * HWY_MAX_BYTES / sizeof(std::uint64_t)];
  write(i, last);
  std::copy_n(last, 4 * (count - i), words + 4 * i);
}

}  // namespace longspan
HWY_AFTER_NAMESPACE();
