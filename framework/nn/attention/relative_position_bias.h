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

// Relative positions: a learned vector per relative position. Let D = max_distance and r = clip(k -
// p, -D, D) + D. The score of query p and key k is
//   q_p . (key_k + keys[r]) / sqrt(dim)
// and the weighted values are value_k + values[r] (Shaw et al. 2018). Variants: without `values`
// (BERT's relative_key); or also with key_k . keys[r] in the score (Huang et al. 2020, method 4;
// BERT's relative_key_query).

// Tables "relative_keys" and "relative_values" of one layer, [2 max_distance + 1, dim], shared by
// its heads. Value type.
class RelativePositionTables {
 public:
  struct Options {
    std::int64_t max_distance = 0;  // at least 1
    std::int64_t dim = 0;           // per head
    Initializer initial = {};
    bool values = true;    // also adds a table to the values
    bool of_keys = false;  // adds the product of keys with the key table to the scores
  };
  RelativePositionTables(const Scope& scope, const Options& options)
      : keys_(scope.replicated_weight(
            "relative_keys", {2 * options.max_distance + 1, options.dim}, options.initial)),
        of_keys_(options.of_keys) {
    if (options.values)
      values_ = scope.replicated_weight(
          "relative_values", {2 * options.max_distance + 1, options.dim}, options.initial);
  }

  ShawVariables term() const {
    return {.key_table = keys_->variable,
            .value_table = values_ ? values_->variable : Variable(),
            .of_keys = of_keys_};
  }

 private:
  Weight keys_;
  Weight values_;
  bool of_keys_;
};

}  // namespace longspan
