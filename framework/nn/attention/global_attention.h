// Attention with global positions: they see and are seen by all, the others see a window (Beltagy
// et al. 2020, Longformer) and random blocks (Zaheer et al. 2020, BigBird).
#pragma once

#include <vector>

#include "framework/core/random.h"
#include "framework/kernels/attention/mask.h"

namespace longspan {

struct GlobalLocalPattern {
  std::vector<std::int64_t> positions;
  std::int64_t left = 0;  // keys of the window before the query, besides itself
  std::int64_t right = 0;
  std::int64_t random_blocks = 0;  // that each block of queries sees besides
  std::int64_t block = 64;         // positions of a block
  bool causal = true;              // blocks are drawn among the earlier ones
  Random random{0};                // of this layer and head: the blocks are the same in every step
};

Mask global_local_mask(const GlobalLocalPattern& global, std::int64_t positions);

// Global positions may have projections of their own, with which they look at all keys: queries,
// keys and values are then projected a second time (Beltagy et al. 2020, section 3.1), and
// attention is in two calls, of these queries and of the others.
Mask global_queries(const GlobalLocalPattern& global);
Mask other_queries(const GlobalLocalPattern& global);

// For each block of queries its random blocks, ascending: distinct, none that the window touches
// and none with a global position; all that are left where there are not enough. Of a causal
// sequence they do not depend on its length.
std::vector<std::vector<std::int64_t>> random_blocks(const GlobalLocalPattern& global,
                                                     std::int64_t positions);
// Whether any of them has one.
bool has_random_blocks(const GlobalLocalPattern& global, std::int64_t positions);

}  // namespace longspan
