// Attention with a kernel that is a product of features, so that the prefix is a state of constant
// size: linear attention, efficient attention, Performer and random feature attention.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "framework/autograd/attention.h"
#include "framework/core/random.h"
#include "framework/kernels/random_features.h"
#include "framework/nn/attention/attention_kind.h"
#include "framework/nn/attention/random_projection.h"
#include "framework/nn/layers.h"

namespace longspan {

// Returns [batch, keys, heads] for the rows of this rank: 0 at visible keys and -inf at padding.
// Undefined if the mask hides nothing.
Tensor hidden_keys(const ProjectedQKV& input, const AttentionMask& mask);

// Linear attention of the projections. Continues from ProjectedQKV::state if set, whose first
// tensor is the state.
Variable linear_attend(const ProjectedQKV& input,
                       const Variable& log_weight,
                       const Variable& decay,
                       LinearAttentionOptions options);

// Linear attention (Katharopoulos et al. 2020) with features elu(x) + 1.
class LinearAttentionOp : public AttentionOp {
 public:
  bool supports_kv_cache() const override { return true; }
  bool has_recurrent_state() const override { return true; }
  // Throws ConfigurationError for a memory and for rules other than causal or none.
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;
};

// Returns the message with which `kind` rejects a memory. Empty without a memory.
std::string validate_memory(const std::string& kind, const AttentionBuildOptions& setting);

AttentionKind linear_kind();

// Efficient attention (Shen et al. 2018): softmax of each query over its features times softmax of
// each key feature over positions. Rows of the implied attention matrix sum to 1. Not causal.

class EfficientAttentionOp : public AttentionOp {
 public:
  // Throws ConfigurationError for a memory and for any mask rules.
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;
};

AttentionKind efficient_kind();

// FAVOR+ (Performer, Choromanski et al. 2021): linear attention with random features whose products
// approximate a softmax or ReLU kernel in expectation.

// All heads of the layer share an orthogonal projection. It is a function of
// model.attention.random_features.seed, the layer and the number of redraws. It is redrawn every
// model.attention.random_features.redraw_interval training steps. Passes outside training use the
// last one.
class PerformerAttentionOp : public AttentionOp {
 public:
  struct Options {
    RandomFeatureOptions features;
    std::int64_t dim = 0;
  };
  PerformerAttentionOp(const Scope& scope, const Options& options);
  bool supports_kv_cache() const override { return true; }
  bool has_recurrent_state() const override { return true; }
  // Throws ConfigurationError for a memory and for rules other than causal or none.
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;

  // Returns the projection of a pass, [count, dim].
  const Tensor& projection(const ForwardContext& pass) const;

 private:
  const Parameters* parameters_;
  Random random_;
  std::int64_t redraw_;
  std::int64_t count_;
  std::int64_t dim_;
  RandomFeatures map_;
  // Drawn lazily, because drawing takes longer than projecting a short sequence.
  mutable std::int64_t drawn_ = -1;
  mutable Tensor projection_;
};

AttentionKind performer_kind();

// Random feature attention (RFA, Peng et al. 2021): linear attention with sine and cosine features
// of normalized queries and keys, with a forget gate.

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
