// Records attention maps of a forward pass for visualization.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/nn/attention/attention_op.h"

namespace longspan {

struct AttentionMap {
  std::int64_t layer = 0;  // counted from 0 in execution order
  std::int64_t head = 0;   // counted from 0
  std::int64_t keys = 0;   // keys of the memory, if any, and of the segment
  // [queries, keys] of the first batch row: weight of each value in the head's output.
  std::vector<double> weights = {};
};

// Set as ForwardContext::watch, it runs each selected attention layer a second time, with unit
// vectors as values. The outputs are the weights of the values. Valid for every type whose output
// is a sum of values with weights that do not depend on them, normalized or not. Requires heads and
// time that are not sharded.
class AttentionRecorder {
 public:
  struct Head {
    std::int64_t layer = 0;
    std::int64_t head = 0;
  };
  explicit AttentionRecorder(std::vector<Head> wanted) : expected_(std::move(wanted)) {}

  // Called by each attention layer with its input and output [batch, time, heads, dim]. Throws
  // ConfigurationError if its type is not such a sum, or if it lacks a selected head.
  void see(const AttentionOp& mechanism,
           const ProjectedQKV& projected,
           const AttentionContext& context,
           const ForwardContext& pass,
           const Variable& mixed);

  // Returns the number of attention layers recorded so far.
  std::int64_t layers() const { return layers_; }
  // Returns the maps in layer order.
  const std::vector<AttentionMap>& maps() const { return maps_; }

 private:
  std::vector<Head> expected_;
  std::int64_t layers_ = 0;
  std::vector<AttentionMap> maps_;
};

}  // namespace longspan
