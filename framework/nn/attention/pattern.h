// Which keys the heads of a layer see: what the attention kinds that are a masked softmax differ
// in.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "framework/autograd/strided_attention.h"
#include "framework/kernels/attention/attention.h"
#include "framework/nn/parameters.h"

namespace longspan {

// What one head sees, as far as the model's own mask lets it: `rules`. The same of a causal
// sequence in two parts: `columns`, keys at multiples of the pattern's stride, counted in strides,
// and `near`, the others. `global`: what those queries see that have projections of their own; none
// of it is in the rest.
struct HeadMaskParts {
  Mask rules;
  Mask near;
  Mask columns = masks::nothing();
  Mask global = masks::nothing();
};

// A value, which threads may share; default-constructed every head sees every key.
class AttentionPattern {
 public:
  // The keys of every head of the model in a sequence of so many positions.
  using Table = std::function<std::vector<HeadMaskParts>(std::int64_t positions)>;

  AttentionPattern() = default;
  // projects_global: some queries have projections of their own. farthest: no key that is farther
  // before a query is seen by it; none: any may be.
  AttentionPattern(Table table,
                   std::int64_t stride,
                   bool projects_global = false,
                   std::optional<std::int64_t> farthest = {});

  // For all heads of the model.
  HeadMasks rules(std::int64_t positions) const;
  // The same of the queries that have projections of their own.
  bool projects_global() const { return projects_global_; }
  HeadMasks global_rules(std::int64_t positions) const;
  const std::optional<std::int64_t>& max_distance() const { return farthest_; }
  // The same of a causal sequence with its columns apart, for these heads; nothing where none of
  // them has columns, or the sequence is too short for it to be worth while.
  std::optional<StridedKeys> folded(const ShardRange& heads, std::int64_t positions) const;

 private:
  class Tables;
  std::shared_ptr<Tables> tables_;
  std::int64_t stride_ = 0;
  bool projects_global_ = false;
  std::optional<std::int64_t> farthest_;
};

// `mask` and rules for all heads of the model, for a call of these heads.
AttentionMask with_rules(const AttentionMask& mask,
                         const HeadMasks& rules,
                         const ShardRange& heads);

// The query-key pairs of one stream that the pattern and the model's own mask let through in a
// segment of `time` positions after a memory of `memory`: the mean over the model's heads. Counted
// once on a device.
double attention_pairs(const AttentionPattern& pattern,
                       const Mask& own,
                       std::int64_t time,
                       std::int64_t memory,
                       const Device& device);

}  // namespace longspan
