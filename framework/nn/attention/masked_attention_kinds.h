// The attention kinds that are a masked softmax: which keys a head of each sees.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/fixed_attention.h"
#include "framework/nn/attention/global_attention.h"

namespace longspan {

// A head that has a kind.
struct HeadContext {
  const AttentionOptions& options;
  std::int64_t layer;
  std::int64_t head;   // of the model
  std::int64_t index;  // among the heads of the layer that have the kind
  std::int64_t positions;
  bool causal;

  std::int64_t right_window() const { return causal ? 0 : window(); }
  // Keys before the query, without itself.
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

// What a kind is in a union whose columns are folded: only with a window can they be.
enum class Folded : std::uint8_t { columns, window, never };

struct MaskedAttentionKind {
  std::string name;
  std::string sees;
  bool shifts;  // what it sees depends on distances alone, so that it goes with a memory
  Folded folded;
  Mask (*keys)(const HeadContext&);
  // How far before a query the farthest key is that it sees, where that has a bound.
  std::int64_t (*max_distance)(const HeadContext&) = nullptr;
  bool global = false;  // has global positions, which may have projections of their own
};

const std::vector<MaskedAttentionKind>& mask_kinds();
// Nothing where there is none of that name.
const MaskedAttentionKind* find_mask_kind(std::string_view name);

}  // namespace longspan
