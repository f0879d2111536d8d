// Masks of the attention types that restrict the pairs of query and key.
#pragma once

#include <vector>

#include "framework/core/random.h"
#include "framework/kernels/attention/mask.h"

namespace longspan {

// Local attention: a query attends to the keys around it (sliding window, Beltagy et al. 2020;
// Parmar et al. 2018).
struct SlidingWindow {
  std::int64_t left = 0;      // keys before the query, excluding itself
  std::int64_t right = 0;     // keys after it
  std::int64_t dilation = 1;  // step between them
};

// Returns the mask p - left * dilation <= k <= p + right * dilation, with (p - k) mod dilation = 0.
Mask sliding_window_mask(const SlidingWindow& local);

// Strided attention (Child et al. 2019): a query attends to keys at multiples of the stride before
// it, its column. This is factor A2 of the paper's strided pattern. A1 is a window of the stride
// (sliding_window_mask).

// Returns the mask (p - k) mod stride = 0.
Mask strided_mask(std::int64_t stride);

// Returns the columns of a causal sequence, in strides, outside a window of `left` keys before the
// query. Negative `left`: no window, all columns.
Mask columns_beyond(std::int64_t left, std::int64_t stride);

// Fixed attention (Child et al. 2019): positions are split into blocks. A query attends to its own
// block and to summary columns at the end of every block.
struct FixedPattern {
  std::int64_t stride = 1;   // positions per block
  std::int64_t summary = 1;  // summary columns per block
  std::int64_t group = 0;    // group g has the g-th `summary` columns from the end of the block
  // a query attends to itself where it otherwise attends only to summaries
  bool self = true;
};

// Returns the mask of the query's block: A1 in the paper.
Mask block_mask(const FixedPattern& fixed);
// Returns the mask of the query's block, extended by positions before and after it: 1-D local
// attention of Image Transformer (Parmar et al. 2018).
Mask block_window_keys(const FixedPattern& fixed, std::int64_t before, std::int64_t after);
// Returns the mask of the summary columns: A2 in the paper. Without `self` the first queries of a
// causal sequence have no keys.
Mask summary_mask(const FixedPattern& fixed);
// Returns the union of both, as in the paper's text models.
Mask fixed_mask(const FixedPattern& fixed);

// Attention with global positions, which attend to and are attended to by all positions. The others
// have a window (Longformer, Beltagy et al. 2020) and random blocks (BigBird, Zaheer et al. 2020).
struct GlobalLocalPattern {
  std::vector<std::int64_t> positions;
  std::int64_t left = 0;  // window keys before the query, excluding itself
  std::int64_t right = 0;
  std::int64_t random_blocks = 0;  // per block of queries
  std::int64_t block = 64;         // positions per block
  bool causal = true;              // random blocks precede the query block
  Random random{0};                // of this layer and head; blocks are the same in every step
};

Mask global_local_mask(const GlobalLocalPattern& global, std::int64_t positions);

// Masks for global positions with their own query, key and value projections, which attend to all
// keys (Beltagy et al. 2020, section 3.1). Attention then takes two calls: global_queries and
// other_queries.
Mask global_queries(const GlobalLocalPattern& global);
Mask other_queries(const GlobalLocalPattern& global);

// Returns the random blocks of each block of queries, distinct and ascending. Excludes blocks that
// the window touches and blocks with a global position. If too few remain, returns all of them. For
// a causal sequence they do not depend on its length.
std::vector<std::vector<std::int64_t>> random_blocks(const GlobalLocalPattern& global,
                                                     std::int64_t positions);
// Returns whether any block has a random block.
bool has_random_blocks(const GlobalLocalPattern& global, std::int64_t positions);

}  // namespace longspan
