// Keys that the heads of a layer attend to, which distinguish the masked softmax types.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "framework/autograd/attention.h"
#include "framework/kernels/attention/attention.h"
#include "framework/nn/parameters.h"

namespace longspan {

// Mask of one head, before the model's own mask: `rules`. For a causal sequence also as two
// disjoint parts: `columns`, the keys at multiples of the pattern's stride, in strides, and `near`,
// the others. `global`: mask of the queries with their own projections, disjoint from the rest.
struct HeadMaskParts {
  Mask rules;
  Mask near;
  Mask columns = masks::nothing();
  Mask global = masks::nothing();
};

// Thread-safe value type. Default-constructed: every head attends to every key.
class AttentionPattern {
 public:
  // Returns the masks of all heads of the model for a sequence of `positions`.
  using Table = std::function<std::vector<HeadMaskParts>(std::int64_t positions)>;

  AttentionPattern() = default;
  // projects_global: some queries have their own projections. Last parameter: max distance of a key
  // before its query. None: unbounded.
  AttentionPattern(Table table,
                   std::int64_t stride,
                   bool projects_global = false,
                   std::optional<std::int64_t> farthest = {});

  // Returns the masks of all heads of the model.
  HeadMasks rules(std::int64_t positions) const;
  // Returns the masks of the queries with their own projections.
  bool projects_global() const { return projects_global_; }
  HeadMasks global_rules(std::int64_t positions) const;
  const std::optional<std::int64_t>& max_distance() const { return farthest_; }
  // Returns the masks of these heads with separate columns, for a causal sequence. Nothing if no
  // head has columns, or if the sequence is too short to benefit.
  std::optional<StridedKeys> folded(const ShardRange& heads, std::int64_t positions) const;

 private:
  class Tables;
  std::shared_ptr<Tables> tables_;
  std::int64_t stride_ = 0;
  bool projects_global_ = false;
  std::optional<std::int64_t> farthest_;
};

// Returns `mask` combined with the rules for all heads of the model, for a call with these heads.
AttentionMask with_rules(const AttentionMask& mask,
                         const HeadMasks& rules,
                         const ShardRange& heads);

// Returns the number of query-key pairs per stream that the pattern and the model's own mask allow,
// as a mean over the model's heads. For a segment of `time` positions after a memory of `memory`.
// Counts once per device.
double attention_pairs(const AttentionPattern& pattern,
                       const Mask& own,
                       std::int64_t time,
                       std::int64_t memory,
                       const Device& device);

}  // namespace longspan
