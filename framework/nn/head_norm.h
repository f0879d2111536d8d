// Norms of the queries or keys of each head (Henry et al. 2020; Dehghani et al. 2023).
#pragma once

#include "framework/autograd/rms_norm.h"
#include "framework/nn/layers.h"

namespace longspan {

// Parameters "weight" [dim] and, of a layer norm, "bias" [dim], which the heads share. A value.
class HeadNorm {
 public:
  // Throws Failure for a power norm, whose averages are of the features of a stream.
  HeadNorm(const Scope& scope, std::int64_t dim, const NormForm& form)
      : epsilon_(form.epsilon),
        weight_(scope.inside_weight("weight", {dim}, Initial::constant(1))) {
    require(form.kind != NormKind::power, "queries and keys have norms of each row alone");
    if (form.kind == NormKind::layer)
      bias_ = scope.inside_weight("bias", {dim}, Initial::constant(0));
  }
  // x: [batch, time, heads, dim].
  Variable operator()(const Variable& x) const {
    return bias_ ? layer_norm(x, weight_->variable, bias_->variable, epsilon_)
                 : rms_norm(x, weight_->variable, epsilon_);
  }

 private:
  double epsilon_;
  Weight weight_;
  Weight bias_;
};

}  // namespace longspan
