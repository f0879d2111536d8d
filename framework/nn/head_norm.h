// Norms of the queries or keys of each head (Henry et al. 2020; Dehghani et al. 2023).
#pragma once

#include "framework/autograd/rms_norm.h"
#include "framework/nn/layers.h"

namespace longspan {

// Parameters "weight" [dim] and, of a layer norm, "bias" [dim], which the heads share. A value.
class HeadNorm {
 public:
  // Throws Failure for a power norm, whose averages are of the features of a stream.
  HeadNorm(const Scope& scope, std::int64_t dim, NormKind kind)
      : weight_(scope.inside_weight("weight", {dim}, Initial::constant(1))) {
    require(kind != NormKind::power, "queries and keys have norms of each row alone");
    if (kind == NormKind::layer) bias_ = scope.inside_weight("bias", {dim}, Initial::constant(0));
  }
  // x: [batch, time, heads, dim].
  Variable operator()(const Variable& x) const {
    constexpr double epsilon = 1e-5;
    return bias_ ? layer_norm(x, weight_->variable, bias_->variable, epsilon)
                 : rms_norm(x, weight_->variable, epsilon);
  }

 private:
  Weight weight_;
  Weight bias_;
};

}  // namespace longspan
