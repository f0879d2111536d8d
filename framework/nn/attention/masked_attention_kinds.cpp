#include "framework/nn/attention/masked_attention_kinds.h"

#include <algorithm>

#include "framework/nn/attention/masks.h"

namespace longspan {

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
