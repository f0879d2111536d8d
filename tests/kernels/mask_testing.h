// Random masks of every rule type, and their unions and intersections.
#pragma once

#include <vector>

#include "framework/core/random.h"
#include "framework/kernels/attention/mask.h"

namespace longspan::testing {

class Draws {
 public:
  explicit Draws(const Random& random) : random_(random) {}
  // Returns a number of 0 .. most.
  std::int64_t pick(std::int64_t most) {
    return static_cast<std::int64_t>(random_.word(count_++)) % (most + 1);
  }
  bool one_in(std::int64_t n) { return pick(n - 1) == 0; }

 private:
  Random random_;
  std::uint64_t count_ = 0;
};

// A rule for positions below `positions`, with lengths from 1 to beyond a tile.
inline Mask random_rule(Draws& draws, std::int64_t positions) {
  const auto length = [&] { return 1 + draws.pick(draws.one_in(2) ? 9 : 150); };
  const auto some = [&](std::int64_t most) {
    std::vector<std::int64_t> list;
    for (std::int64_t n = draws.pick(most); n > 0; --n) list.push_back(draws.pick(positions - 1));
    return list;
  };
  switch (draws.pick(9)) {
    case 0:
      return masks::causal();
    case 1:
      return masks::window(length() - 1, draws.one_in(3) ? -draws.pick(2) : draws.pick(80));
    case 2:
      return masks::stride(length());
    case 3:
      return masks::block(length(), draws.pick(1) * length(), draws.pick(1) * length());
    case 4: {
      const std::int64_t width = length();
      const std::int64_t first = draws.pick(width - 1);
      return masks::columns(width, first, 1 + draws.pick(width - 1 - first));
    }
    case 5:
      return masks::self();
    case 6:
      if (draws.one_in(2)) return masks::keys_at(some(6));
      return draws.one_in(2) ? masks::queries_at(some(6)) : masks::queries_except(some(6));
    case 7:
      return masks::global(some(4));
    case 8: {
      const std::int64_t block = length();
      std::vector<std::vector<std::int64_t>> lists(
          static_cast<std::size_t>((positions + block - 1) / block));
      for (auto& list : lists)
        for (std::int64_t n = draws.pick(3); n > 0; --n)
          list.push_back(draws.pick((positions - 1) / block));
      return masks::block_map(block, lists);
    }
    default: {
      masks::Image image;
      image.query_height = 1 + draws.pick(3);
      image.query_width = 1 + draws.pick(6);
      // A multiple of the block size or not.
      image.width = 1 + draws.pick(5 * image.query_width - 1);
      image.height = 1 + (positions - 1) / image.width + draws.pick(2);
      image.flange_height = draws.pick(4);
      image.flange_width = draws.pick(8);
      image.causal = draws.one_in(2);
      return masks::image(
          image, draws.one_in(2) ? masks::ImageOrder::raster : masks::ImageOrder::generation);
    }
  }
}

// One to three alternatives of one to three rules.
inline Mask random_mask(Draws& draws, std::int64_t positions) {
  Mask result = masks::nothing();
  bool first = true;
  for (std::int64_t n = draws.pick(2); n >= 0; --n) {
    Mask part = random_rule(draws, positions);
    for (std::int64_t m = draws.pick(2); m > 0; --m)
      part = part & (draws.one_in(3) ? masks::causal() : random_rule(draws, positions));
    result = first ? part : result | part;
    first = false;
  }
  return result;
}

}  // namespace longspan::testing
