// Additive attention (Bahdanau et al. 2015) and location-aware attention (Chorowski et al. 2015).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "framework/nn/attention/attention_kind.h"

namespace longspan {

// Score function of a decoder's cross-attention.
enum class CrossAttentionScore : std::uint8_t {
  dot_product,
  additive,
  location  // additive, with the attention probabilities of the previous position as a feature
};

struct CrossAttentionScoreOptions {
  CrossAttentionScore kind = CrossAttentionScore::dot_product;
  std::int64_t kernel_size = 5;  // only for location: probabilities around a key that are read
};

// The score of a query and a key is w . tanh(q + k), with one w per head. The layer's projections
// are the two matrices of the alignment network, and the query bias is its bias. Requires all keys
// at once, so each context rank computes part of the heads.
//
// With location, the score also reads the previous query's probabilities around the key, with one
// vector per offset: a convolution fused with its projection. Queries are then sequential, and
// their probabilities are stored.
class AdditiveAttentionOp : public AttentionOp {
 public:
  struct Options {
    std::int64_t heads = 0;        // total heads of the model
    std::int64_t dim = 0;          // per head
    std::int64_t kernel_size = 0;  // 0: no location
    double dropout = 0;            // on the probabilities
    std::optional<Initializer> initial = {};
  };
  // Parameters: "score" [heads, dim] and, with kernel_size > 0, "location" [heads, kernel_size,
  // dim].
  AdditiveAttentionOp(const Scope& scope, const Options& options);
  bool supports_kv_cache() const override { return true; }
  // Throws ConfigurationError for rules other than causal or none.
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;

 private:
  Options options_;
  std::int64_t head_begin_;
  Weight score_;
  Weight location_;
};

AttentionKind additive_kind();

// Returns the cross-attention op of a layer for its score function. scale: as
// SoftmaxOptions::scale, for dot-product scores.
std::unique_ptr<AttentionOp> cross_attention_op(const Scope& attention,
                                                const CrossAttentionScoreOptions& scores,
                                                const AdditiveAttentionOp::Options& options,
                                                double scale = 0);

// Returns the reason why cross-attention does not support these scores. Otherwise empty.
std::string validate_cross_scores(const CrossAttentionScoreOptions& scores,
                                  std::int64_t heads,
                                  std::int64_t dim,
                                  const MeshShape& mesh);

}  // namespace longspan
