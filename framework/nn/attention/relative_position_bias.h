// A learned number for each head and bucket of distances, added to scores (Raffel et al. 2020).
#pragma once

#include <cstdint>

#include "framework/autograd/ops.h"
#include "framework/nn/parameters.h"

namespace longspan {

// One table for all layers of a stack. A value.
class RelativePositionBias {
 public:
  struct Options {
    std::int64_t heads = 0;
    std::int64_t buckets = 32;        // even, at least 4
    std::int64_t max_distance = 128;  // farther distances count as this one, which has the last
                                      // bucket of its side; more than half of the buckets
    bool causal = false;              // no query sees a later key: all buckets are of earlier ones
    Initializer initial = {};
  };
  // Makes "relative_bias" [heads, buckets], whose rows tensor ranks divide. Throws Failure for
  // options that are not as said above.
  RelativePositionBias(const Scope& stack, const Options& options);
  // Of this rank's heads and each distance: AttentionTerms::distance_bias.
  Variable term() const;

 private:
  Weight table_;
  Tensor places_;  // [1, own heads * (2 reach + 1)] i64: where each head's number of each distance
                   // stands in the table, from the farthest earlier key on
};

// The bucket of a key at `distance` = key's position - query's, 0 to buckets - 1. Half of the
// buckets of a side are of one distance each, from 0 on; the others grow with its logarithm. Where
// both sides are seen, later keys have the second half of the buckets.
std::int64_t relative_position_bucket(std::int64_t distance,
                                      const RelativePositionBias::Options& options);

}  // namespace longspan
