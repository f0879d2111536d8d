#include "framework/nn/attention/masked_attention_kinds.h"

#include <algorithm>
#include <set>

#include "framework/core/error.h"

namespace longspan {
namespace {

Mask columns_of(const FixedPattern& fixed) {
  const std::int64_t first = fixed.stride - (fixed.group + 1) * fixed.summary;
  return masks::columns(fixed.stride, first, fixed.summary);
}

// Blocks [0, near_begin) and [near_end, blocks): those outside the window of a block.
struct FarBlocks {
  std::int64_t near_begin;
  std::int64_t near_end;
  std::int64_t blocks;

  FarBlocks(const GlobalLocalPattern& global, std::int64_t block, std::int64_t all)
      : near_begin(std::max<std::int64_t>(block * global.block - global.left, 0) / global.block),
        near_end(((block + 1) * global.block - 1 + global.right) / global.block + 1),
        blocks(all) {
    if (global.causal) blocks = near_end;
    near_end = std::min(near_end, blocks);
  }
  std::int64_t count() const { return near_begin + blocks - near_end; }
  bool holds(std::int64_t block) const {
    return block < near_begin || (block >= near_end && block < blocks);
  }
  std::int64_t at(std::int64_t index) const {
    return index < near_begin ? index : index - near_begin + near_end;
  }
};

std::int64_t blocks_of(const GlobalLocalPattern& global, std::int64_t positions) {
  return (positions + global.block - 1) / global.block;
}

// Returns the blocks with a global position.
std::set<std::int64_t> taken_blocks(const GlobalLocalPattern& global) {
  std::set<std::int64_t> taken;
  for (const std::int64_t position : global.positions) taken.insert(position / global.block);
  return taken;
}

std::int64_t free_blocks(const FarBlocks& far, const std::set<std::int64_t>& taken) {
  return far.count() -
         std::ranges::count_if(taken, [&](std::int64_t other) { return far.holds(other); });
}

}  // namespace

Mask columns_beyond(std::int64_t left, std::int64_t stride) {
  if (left < 0) return masks::causal();
  return masks::window(masks::unlimited, -(left / stride + 1));
}

Mask sliding_window_mask(const SlidingWindow& local) {
  require(local.left >= 0 && local.right >= 0 && local.dilation > 0,
          "local attention: invalid window: {} keys to the left, {} to the right, dilation {}",
          local.left,
          local.right,
          local.dilation);
  const Mask window = masks::window(local.left * local.dilation, local.right * local.dilation);
  return local.dilation == 1 ? window : window & masks::stride(local.dilation);
}

Mask strided_mask(std::int64_t stride) { return masks::stride(stride); }

Mask block_mask(const FixedPattern& fixed) { return masks::block(fixed.stride); }

Mask block_window_keys(const FixedPattern& fixed, std::int64_t before, std::int64_t after) {
  return masks::block(fixed.stride, before, after);
}

Mask summary_mask(const FixedPattern& fixed) {
  return fixed.self ? columns_of(fixed) | masks::self() : columns_of(fixed);
}

Mask fixed_mask(const FixedPattern& fixed) { return block_mask(fixed) | columns_of(fixed); }

bool has_random_blocks(const GlobalLocalPattern& global, std::int64_t positions) {
  const std::int64_t blocks = blocks_of(global, positions);
  const std::set<std::int64_t> taken = taken_blocks(global);
  for (std::int64_t block = 0; block < blocks; ++block)
    if (free_blocks(FarBlocks(global, block, blocks), taken) > 0) return global.random_blocks > 0;
  return false;
}

std::vector<std::vector<std::int64_t>> random_blocks(const GlobalLocalPattern& global,
                                                     std::int64_t positions) {
  const std::int64_t blocks = blocks_of(global, positions);
  const std::set<std::int64_t> taken = taken_blocks(global);
  std::vector<std::vector<std::int64_t>> result;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const FarBlocks far(global, block, blocks);
    const std::int64_t free = free_blocks(far, taken);
    const Random random = global.random.child(static_cast<std::uint64_t>(block));
    std::set<std::int64_t> row;
    // Repeats draws of blocks that are already in the row.
    for (std::uint64_t i = 0; std::ssize(row) < std::min(global.random_blocks, free); ++i) {
      const std::uint64_t scaled = random.word(i) * static_cast<std::uint64_t>(far.count()) >> 32;
      const std::int64_t other = far.at(static_cast<std::int64_t>(scaled));
      if (!taken.contains(other)) row.insert(other);
    }
    result.emplace_back(row.begin(), row.end());
  }
  return result;
}

Mask global_queries(const GlobalLocalPattern& global) {
  return global.positions.empty() ? masks::nothing() : masks::queries_at(global.positions);
}

Mask other_queries(const GlobalLocalPattern& global) {
  return masks::queries_except(global.positions);
}

Mask global_local_mask(const GlobalLocalPattern& global, std::int64_t positions) {
  Mask keys = masks::window(global.left, global.right);
  if (!global.positions.empty()) keys = keys | masks::global(global.positions);
  if (global.random_blocks > 0)
    keys = keys | masks::block_map(global.block, random_blocks(global, positions));
  return keys;
}

// Registers attention types that are a masked softmax.
const std::vector<MaskedAttentionKind>& mask_kinds() {
  static const std::vector<MaskedAttentionKind> all = {
      {"full",
       "all previous keys, in an encoder all keys",
       true,
       Folded::never,
       [](const HeadContext&) { return masks::everything(); }},
      {"sliding_window",
       "a window of keys",
       true,
       Folded::window,
       [](const HeadContext& at) {
         return sliding_window_mask({.left = at.window(), .right = at.right_window()});
       },
       [](const HeadContext& at) { return at.window(); }},
      {"dilated",
       "a dilated window of keys",
       true,
       Folded::never,
       [](const HeadContext& at) {
         return sliding_window_mask(
             {.left = at.window(), .right = at.right_window(), .dilation = at.options.dilation});
       },
       [](const HeadContext& at) { return at.window() * at.options.dilation; }},
      {"strided",
       "every stride-th key",
       true,
       Folded::columns,
       [](const HeadContext& at) { return strided_mask(at.options.stride); }},
      {"local_1d",
       "the query's block and the filter_width keys before it",
       false,
       Folded::never,
       [](const HeadContext& at) {
         const Local1dOptions& own = at.options.local_1d;
         return block_window_keys(
             {.stride = own.block_length}, own.filter_width, at.causal ? 0 : own.filter_width);
       },
       [](const HeadContext& at) {
         return at.options.local_1d.block_length - 1 + at.options.local_1d.filter_width;
       }},
      {"block",
       "the query's block, of length stride",
       false,
       Folded::never,
       [](const HeadContext& at) { return block_mask(at.fixed()); },
       [](const HeadContext& at) { return at.options.stride - 1; }},
      {"summary",
       "the summary columns of every block",
       false,
       Folded::never,
       [](const HeadContext& at) { return summary_mask(at.fixed()); }},
      {"fixed",
       "block and summary combined",
       false,
       Folded::never,
       [](const HeadContext& at) { return fixed_mask(at.fixed()); }},
      {"global_local",
       "global positions, a window and random blocks",
       false,
       Folded::never,
       [](const HeadContext& at) { return global_local_mask(at.global(), at.positions); },
       nullptr,
       true},
  };
  return all;
}

const MaskedAttentionKind* find_mask_kind(std::string_view name) {
  const auto found = std::ranges::find(mask_kinds(), name, &MaskedAttentionKind::name);
  return found == mask_kinds().end() ? nullptr : &*found;
}

}  // namespace longspan
