// Random feature attention (RFA, Peng et al. 2021): linear attention with sine and cosine features
// of normalized queries and keys, with a forget gate.
#pragma once

#include <map>
#include <optional>

#include "framework/core/random.h"
#include "framework/nn/attention/attention_kind.h"
#include "framework/nn/attention/random_projection.h"
#include "framework/nn/layers.h"

namespace longspan {

// Parameters: "deviation" [heads, dim], which scales the random vectors and is initialized with
// ones. With a gate also "gate", a linear layer from the layer input to the heads. Each training
// step uses one of model.attention.random_features.num_draws sets of random vectors. They are
// functions of model.attention.random_features.seed and the layer. Passes outside training use the
// first set.
class RandomFeatureAttentionOp : public AttentionOp {
 public:
  struct Options {
    RandomFeatureOptions features;
    std::int64_t heads = 0;
    std::int64_t dim = 0;
    std::int64_t width = 0;
  };
  RandomFeatureAttentionOp(const Scope& scope, const Options& options);
  bool supports_kv_cache() const override { return true; }
  bool has_recurrent_state() const override { return true; }
  // Throws ConfigurationError for a memory, for rules other than causal or none, and for a gate
  // without causality.
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;

 private:
  const Tensor& projection(const ForwardContext& pass) const;
  Variable features(const Variable& x, const ForwardContext& pass) const;

  const Parameters* parameters_;
  Random random_;
  RandomFeatureOptions options_;
  std::int64_t count_;
  std::int64_t dim_;
  Weight deviation_;
  std::optional<Linear> gate_;
  mutable std::map<std::int64_t, Tensor> drawn_;  // by draw, created lazily
};

AttentionKind random_features_kind();

}  // namespace longspan
