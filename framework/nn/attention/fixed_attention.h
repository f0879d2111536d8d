// Fixed attention (Child et al. 2019): positions are cut into blocks; a query sees its own block
// and the summary columns at the end of every block.
#pragma once

#include "framework/kernels/attention/mask.h"

namespace longspan {

struct FixedPattern {
  std::int64_t stride = 1;   // positions of a block
  std::int64_t summary = 1;  // summary columns of a block
  std::int64_t group = 0;    // group g has the g-th `summary` columns from the end of the block
  bool self = true;          // a query sees itself where it sees summaries alone
};

// The block of the query: A1 of the paper.
Mask block_mask(const FixedPattern& fixed);
// The block of the query, widened by positions before and after it: 1-D local attention of the
// Image Transformer (Parmar et al. 2018).
Mask block_window_keys(const FixedPattern& fixed, std::int64_t before, std::int64_t after);
// The summary columns: A2. Without `self` the first queries of a causal sequence see nothing.
Mask summary_mask(const FixedPattern& fixed);
// Both, as the paper's text models use them.
Mask fixed_mask(const FixedPattern& fixed);

}  // namespace longspan
