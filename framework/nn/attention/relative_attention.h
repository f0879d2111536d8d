// Relative attention of Transformer-XL (Dai et al. 2019): the score is ((q + u).k + (q + v).W_r
// R_distance) / sqrt(dim).
#pragma once

#include "framework/nn/attention/attention_op.h"
#include "framework/nn/attention/pattern.h"
#include "framework/nn/attention/softmax_attention.h"
#include "framework/nn/layers.h"

namespace longspan {

// Biases u (content) and v (position), [heads, dim], split by head. All layers may share one pair.
struct PositionBiases {
  Weight content;
  Weight position;

  PositionBiases(const Scope& scope,
                 std::int64_t heads,
                 std::int64_t dim,
                 const Initializer& initial);
};

class RelativeAttention : public AttentionOp {
 public:
  struct Options {
    std::int64_t width = 0;  // of the relative position encodings
    std::int64_t heads = 0;
    std::int64_t dim = 0;
    double dropout = 0;        // on the probabilities
    Initializer initial = {};  // for W_r
  };
  // Requires a pattern that is invariant to a shift of all positions.
  RelativeAttention(const Scope& scope,
                    const Options& options,
                    const PositionBiases& biases,
                    AttentionPattern pattern = {},
                    SoftmaxOptions form = {});
  bool supports_kv_cache() const override { return true; }
  bool supports_document_mask() const override { return true; }
  bool supports_grouped_kv() const override { return true; }
  std::optional<std::int64_t> max_distance() const override { return pattern_.max_distance(); }
  Variable distance_keys(const AttentionContext& context,
                         const ForwardContext& pass) const override;
  // Requires context.distances.
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;

 private:
  std::int64_t heads_;  // on this rank
  std::int64_t dim_;
  double dropout_;
  TensorParallelRegion region_;
  Linear position_;
  PositionBiases biases_;
  AttentionPattern pattern_;
  SoftmaxOptions form_;
};

}  // namespace longspan
