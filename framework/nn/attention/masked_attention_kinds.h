// Attention types that are a masked softmax, and their masks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/random.h"
#include "framework/kernels/attention/mask.h"
#include "framework/nn/attention/attention_kinds.h"

namespace longspan {

// Masks of the attention types that restrict the pairs of query and key.

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

// A head with an attention type.
struct HeadContext {
  const AttentionOptions& options;
  std::int64_t layer;
  std::int64_t head;   // of the model
  std::int64_t index;  // among the heads of the layer with this type
  std::int64_t positions;
  bool causal;

  std::int64_t right_window() const { return causal ? 0 : window(); }
  // Returns the number of keys before the query, excluding itself.
  std::int64_t window() const {
    const auto& all = options.sliding_window;
    return (all.size() == 1 ? all.front() : all[static_cast<std::size_t>(layer)]) - 1;
  }
  FixedPattern fixed() const {
    return {.stride = options.stride,
            .summary = options.summary,
            .group = index % options.summary_groups,
            .self = options.self};
  }
  GlobalLocalPattern global() const {
    return {.positions = options.global,
            .left = window(),
            .right = right_window(),
            .random_blocks = options.random,
            .block = options.block,
            .causal = causal,
            .random = Random(static_cast<std::uint64_t>(options.seed))
                          .child("random_blocks")
                          .child(static_cast<std::uint64_t>(layer))
                          .child(static_cast<std::uint64_t>(head))};
  }
};

// Role of a type in a union whose columns are folded into strides. Columns can be folded only
// together with windows.
enum class Folded : std::uint8_t { columns, window, never };

struct MaskedAttentionKind {
  std::string name;
  std::string sees;
  bool shifts;  // the mask depends only on relative positions, so that memory is supported
  Folded folded;
  Mask (*keys)(const HeadContext&);
  // Returns the max distance of a key before the query. Null: unbounded.
  std::int64_t (*max_distance)(const HeadContext&) = nullptr;
  bool global = false;  // has global positions, which may have their own projections
};

const std::vector<MaskedAttentionKind>& mask_kinds();
// Returns null if no type has the name.
const MaskedAttentionKind* find_mask_kind(std::string_view name);

}  // namespace longspan
