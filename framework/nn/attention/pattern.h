// Which keys the heads of a layer see: what the attention kinds that are a masked softmax differ
// in.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "framework/autograd/folded_attention.h"
#include "framework/kernels/attention.h"
#include "framework/nn/parameters.h"

namespace longspan {

// What one head sees, as far as the model's own mask lets it: `rules`. The same of a causal
// sequence in two parts: `columns`, keys at multiples of the pattern's stride, counted in strides,
// and `near`, the others.
struct HeadKeys {
  Mask rules;
  Mask near;
  Mask columns = masks::nothing();
};

// A value; default-constructed every head sees every key.
class AttentionPattern {
 public:
  // The keys of every head of the model in a sequence of so many positions.
  using Table = std::function<std::vector<HeadKeys>(std::int64_t positions)>;

  AttentionPattern() = default;
  AttentionPattern(Table table, std::int64_t stride);

  // For all heads of the model.
  HeadMasks rules(std::int64_t positions) const;
  // The same of a causal sequence with its columns apart, for these heads; nothing where none of
  // them has columns, or the sequence is too short for it to be worth while.
  std::optional<FoldedKeys> folded(const Part& heads, std::int64_t positions) const;

 private:
  const std::vector<HeadKeys>& table(std::int64_t positions) const;

  struct Made;
  std::shared_ptr<Made> made_;
  std::int64_t stride_ = 0;
};

// `mask` and the pattern's rules, for a call of these heads with keys up to `positions`.
AttentionMask with_pattern(const AttentionMask& mask,
                           const AttentionPattern& pattern,
                           const Part& heads,
                           std::int64_t positions);

// The query-key pairs of one stream that the pattern and the model's own mask let through in a
// segment of `time` positions after a memory of `memory`: the mean over the model's heads.
double attention_pairs(const AttentionPattern& pattern,
                       const Mask& own,
                       std::int64_t heads,
                       std::int64_t time,
                       std::int64_t memory,
                       const Device& device);

}  // namespace longspan
