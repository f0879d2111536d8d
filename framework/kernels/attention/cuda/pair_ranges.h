// Ranges of (batch row, head) pairs that a backward pass processes at once: all pairs, or as many
// as have memory for saved score gradients.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <system_error>
#include <vector>

#include "framework/core/error.h"
#include "framework/kernels/attention/cuda/backward_tile.h"

namespace longspan::tile_attention {

// Heads and batch rows.
struct PairRange {
  std::int64_t head_begin;
  std::int64_t heads;
  std::int64_t row_begin;
  std::int64_t rows;
};

// Splits `count` into the fewest ranges of at most `most`, as even as possible: f(begin, count).
template <typename F>
void for_even_ranges(std::int64_t count, std::int64_t most, F f) {
  const std::int64_t ranges = (count + most - 1) / most;
  for (std::int64_t r = 0; r < ranges; ++r) {
    const std::int64_t begin = r * count / ranges;
    f(begin, (r + 1) * count / ranges - begin);
  }
}

// Ranges of at most `most` pairs (at least one), covering all heads from `head_begin` on and all
// batch rows. Ranges contain all heads of their rows if possible, because a table's gradient has
// blocks by head, not by row.
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

inline std::int64_t max_pairs(const std::vector<PairRange>& ranges) {
  std::int64_t most = 0;
  for (const PairRange& range : ranges) most = std::max(most, range.heads * range.rows);
  return most;
}

// Returns LONGSPAN_MAX_SAVED_PAIRS of the environment: the maximum number of pairs whose score
// gradients are saved at once. Overrides the minimum number of blocks. Throws Failure on an invalid
// number.
inline std::optional<std::int64_t> asked_kept_pairs() {
  const char* const text = std::getenv("LONGSPAN_MAX_SAVED_PAIRS");
  if (text == nullptr) return std::nullopt;
  std::int64_t number = -1;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  require(error == std::errc() && stop == end && number >= 0,
          "LONGSPAN_MAX_SAVED_PAIRS: expected an integer of at least 0, found \"{}\"",
          text);
  return number;
}

// Returns the ranges of a group's pairs whose score gradients are saved, for reuse by the gradients
// of the query and of a relative-position table. Empty if each recomputes them. Recomputation needs
// no memory, but takes longer with products with a table.
template <typename In>
std::vector<PairRange> saved_ranges(const AttentionCall<In>& call, const HeadGroup& group) {
  constexpr std::int64_t max_bytes = std::int64_t{512} << 20;
  // for each kernel: at least two for each multiprocessor
  constexpr std::int64_t min_blocks = 512;
  const std::int64_t tiles = group.plan->full_tiles() + group.plan->partial_tiles();
  if (!may_retain_gradients<In> || !call.key_table || call.span.z != nullptr || tiles == 0)
    return {};
  const auto bytes = tiles * tile * tile * static_cast<std::int64_t>(sizeof(In));
  const auto asked = asked_kept_pairs();
  const std::int64_t most = std::min(max_bytes / bytes, asked.value_or(max_bytes));
  if (most == 0) return {};
  const auto ranges = pair_ranges(group.begin, group.count, call.batch, most);
  const auto has_blocks = [&](const PairRange& range) {
    return range.heads * range.rows * call.key_tiles() >= min_blocks;
  };
  if (asked || ranges.size() == 1 || std::ranges::all_of(ranges, has_blocks)) return ranges;
  return {};
}

}  // namespace longspan::tile_attention
