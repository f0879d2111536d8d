// Learned bias per head and relative position bucket, added to scores (T5, Raffel et al. 2020).
#pragma once

#include <cstdint>

#include "framework/autograd/ops.h"
#include "framework/nn/parameters.h"

namespace longspan {

// One table for all layers of a stack. Value type.
class RelativePositionBias {
 public:
  struct Options {
    std::int64_t heads = 0;
    std::int64_t buckets = 32;  // even, at least 4
    // larger distances share its bucket, the last one of their side; must exceed half of the
    // buckets
    std::int64_t max_distance = 128;
    // no query attends to a later key: all buckets are for earlier ones
    bool causal = false;
    Initializer initial = {};
  };
  // Creates "relative_bias" [heads, buckets], rows split over tensor ranks. Throws Failure if the
  // options violate the constraints above.
  RelativePositionBias(const Scope& stack, const Options& options);
  // Returns AttentionTerms::distance_bias for this rank's heads and all relative positions.
  Variable term() const;

 private:
  Weight table_;
  // [1, own heads * (2 max_distance + 1)] i64: table index of each head and relative position,
  // starting at the max distance before the query
  Tensor places_;
};

// Returns the bucket of relative position `distance` (key position - query position), 0 to buckets
// - 1. Half of the buckets of a side hold one distance each, starting at 0; the others grow
// logarithmically. Bidirectional: later keys use the second half of the buckets.
std::int64_t relative_position_bucket(std::int64_t distance,
                                      const RelativePositionBias::Options& options);

}  // namespace longspan
