// Relative positions: a learned vector for each distance. With r = clip(k - p, -reach, reach) +
// reach, the score of query p and key k is
//   q_p . (key_k + keys[r]) / sqrt(dim), and what is weighed value_k + values[r] (Shaw et al.
//   2018), or without `values` (BERT's relative_key), or with key_k . keys[r] in the sum too (Huang
//   et al. 2020, method 4; BERT's relative_key_query).
#pragma once

#include <cstdint>

#include "framework/autograd/ops.h"
#include "framework/nn/parameters.h"

namespace longspan {

// The tables "relative_keys" and "relative_values" of one layer, [2 reach + 1, dim], which its
// heads share. A value.
class RelativePositionTables {
 public:
  struct Options {
    std::int64_t max_distance = 0;  // at least 1
    std::int64_t dim = 0;           // of a head
    Initializer initial = {};
    bool values = true;    // a table beside values, too
    bool of_keys = false;  // keys are multiplied with the table beside them
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
