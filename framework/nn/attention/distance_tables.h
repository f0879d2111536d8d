// Relative positions (Shaw et al. 2018): a key and a value for each distance, added to those of the
// tokens. With r = clip(k - p, -reach, reach) + reach the score of query p and key k is
// q_p . (key_k + keys[r]) / sqrt(dim), and what is weighed is value_k + values[r].
#pragma once

#include <cstdint>

#include "framework/autograd/ops.h"
#include "framework/nn/parameters.h"

namespace longspan {

// The tables "relative_keys" and "relative_values" of one layer, [2 reach + 1, dim], which its
// heads share. A value.
class DistanceTables {
 public:
  struct Options {
    std::int64_t reach = 0;  // at least 1
    std::int64_t dim = 0;    // of a head
    Initial initial = {};
  };
  DistanceTables(const Scope& scope, const Options& options)
      : keys_(scope.inside_weight(
            "relative_keys", {2 * options.reach + 1, options.dim}, options.initial)),
        values_(scope.inside_weight(
            "relative_values", {2 * options.reach + 1, options.dim}, options.initial)) {}

  ShawVariables term() const { return {keys_->variable, values_->variable}; }

 private:
  Weight keys_;
  Weight values_;
};

}  // namespace longspan
