// Attention types that are a masked softmax, with the keys a head of each attends to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/masks.h"

namespace longspan {

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
