// Attention with global positions, which attend to and are attended to by all positions. The others
// have a window (Longformer, Beltagy et al. 2020) and random blocks (BigBird, Zaheer et al. 2020).
#pragma once

#include <vector>

#include "framework/core/random.h"
#include "framework/kernels/attention/mask.h"

namespace longspan {

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
