// The pairs of a batch row and a head that a backward pass takes at once: all of them, or where
// gradients of scores are kept as many as there is memory for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <type_traits>
#include <vector>

#include "framework/kernels/cuda/attention_call.h"

namespace longspan::tile_attention {

// Heads and rows of the batch.
struct PairRange {
  std::int64_t head_begin;
  std::int64_t heads;
  std::int64_t row_begin;
  std::int64_t rows;
};

// What has `count` in the fewest ranges of at most `most`, as even as can be: f(begin, count).
template <typename F>
void for_even_ranges(std::int64_t count, std::int64_t most, F f) {
  const std::int64_t ranges = (count + most - 1) / most;
  for (std::int64_t r = 0; r < ranges; ++r) {
    const std::int64_t begin = r * count / ranges;
    f(begin, (r + 1) * count / ranges - begin);
  }
}

// Ranges of at most `most` pairs, or of one, that have all heads from `head_begin` on and all rows:
// rows with all heads where so many fit, for what is summed over rows.
inline std::vector<PairRange> pair_ranges(std::int64_t head_begin,
                                          std::int64_t heads,
                                          std::int64_t rows,
                                          std::int64_t most) {
  std::vector<PairRange> ranges;
  most = std::max<std::int64_t>(most, 1);
  for_even_ranges(heads, most, [&](std::int64_t first, std::int64_t of_heads) {
    for_even_ranges(rows, std::max<std::int64_t>(1, most / heads), [&](auto row, auto of_rows) {
      ranges.push_back({head_begin + first, of_heads, row, of_rows});
    });
  });
  return ranges;
}

// Gradients of scores in an element's bits: of float16 they have units of the sums they go into.
template <typename In>
inline constexpr bool may_keep_gradients = std::is_same_v<In, BFloat16>;

// Of how many of `pairs` on matrix units the gradients of scores are kept at once, for the gradient
// of the query and of a table of distances to take: 0 where each makes them again. That needs no
// memory, but takes longer where scores have products with a table. LONGSPAN_KEPT_PAIRS in the
// environment is the most that are kept, as far as they are kept at all.
template <typename In>
std::int64_t kept_pairs(const AttentionCall<In>& call, const TilePlan& plan, std::int64_t pairs) {
  constexpr std::int64_t most_bytes = std::int64_t{512} << 20;
  constexpr std::int64_t least_blocks = 512;  // of a kernel: two for each multiprocessor, and more
  if (!may_keep_gradients<In> || !call.key_table || call.span.z != nullptr) return 0;
  if (const char* const most = std::getenv("LONGSPAN_KEPT_PAIRS"))
    return std::clamp<std::int64_t>(std::atoll(most), 0, pairs);
  const std::int64_t tiles = plan.full_tiles() + plan.partial_tiles();
  const std::int64_t bytes = tiles * tile * tile * static_cast<std::int64_t>(sizeof(In));
  const std::int64_t fitting = bytes > 0 ? std::min(most_bytes / bytes, pairs) : 0;
  return fitting == pairs || fitting * call.key_tiles() >= least_blocks ? fitting : 0;
}

}  // namespace longspan::tile_attention
