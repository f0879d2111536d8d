// What heads look at in a forward pass, for people to see.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/nn/attention/attention_op.h"

namespace longspan {

struct AttentionMap {
  std::int64_t layer = 0;  // counted from 0, as a pass comes to them
  std::int64_t head = 0;   // counted from 0
  std::int64_t keys = 0;   // of the memory, where there is one, and of the segment
  // [queries, keys] of the first row of the batch: how much of a key's value the head takes.
  std::vector<double> weights = {};
};

// Given to a pass (Pass::watch), it asks each attention layer whose heads are wanted once more,
// with values that are each other's basis: what comes out is how much of each value is taken. So it
// is true of every kind whose result is a sum of values with weights that do not depend on them, be
// they probabilities or not. The ranks must divide neither heads nor time.
class AttentionRecorder {
 public:
  struct Head {
    std::int64_t layer = 0;
    std::int64_t head = 0;
  };
  explicit AttentionRecorder(std::vector<Head> wanted) : wanted_(std::move(wanted)) {}

  // By each attention layer, with what it was given and has made of it: [batch, time, heads, dim].
  // Throws ConfigurationError where its kind is no such sum, and where it has no such head.
  void see(const AttentionOp& mechanism,
           const ProjectedQKV& projected,
           const AttentionContext& context,
           const ForwardContext& pass,
           const Variable& mixed);

  // Attention layers that the pass came to.
  std::int64_t layers() const { return layers_; }
  // In the order of layers.
  const std::vector<AttentionMap>& maps() const { return maps_; }

 private:
  std::vector<Head> wanted_;
  std::int64_t layers_ = 0;
  std::vector<AttentionMap> maps_;
};

}  // namespace longspan
