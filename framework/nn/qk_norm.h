// Query-key norm of each head (Henry et al. 2020; Dehghani et al. 2023).
#pragma once

#include "framework/autograd/rms_norm.h"
#include "framework/nn/layers.h"

namespace longspan {

// Parameters: "weight" [dim] and, for layer norm, "bias" [dim], shared by the heads. Value type.
class QKNorm {
 public:
  // Throws Failure for a power norm, whose averages require the features of a stream.
  QKNorm(const Scope& scope, std::int64_t dim, const NormOptions& form)
      : epsilon_(form.epsilon),
        weight_(scope.replicated_weight("weight", {dim}, Initializer::constant(1))) {
    require(form.kind != NormKind::power, "QK norm does not support powernorm");
    if (form.kind == NormKind::layer)
      bias_ = scope.replicated_weight("bias", {dim}, Initializer::constant(0));
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
