// FAVOR+ (Performer, Choromanski et al. 2021): linear attention with random features whose products
// approximate a softmax or ReLU kernel in expectation.
#pragma once

#include <string>

#include "framework/core/random.h"
#include "framework/kernels/random_features.h"
#include "framework/nn/attention/attention_kind.h"
#include "framework/nn/attention/random_projection.h"

namespace longspan {

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

}  // namespace longspan
