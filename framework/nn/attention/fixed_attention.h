// Fixed attention (Child et al. 2019): positions are split into blocks. A query attends to its own
// block and to summary columns at the end of every block.
#pragma once

#include "framework/kernels/attention/mask.h"

namespace longspan {

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

}  // namespace longspan
