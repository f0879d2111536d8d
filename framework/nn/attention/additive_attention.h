// Additive attention as a mechanism (Bahdanau et al. 2015), and location-aware attention (Chorowski
// et al. 2015).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "framework/nn/attention/attention_kind.h"

namespace longspan {

// How a decoder scores the positions of what it looks at.
enum class CrossAttentionScore : std::uint8_t {
  dot_product,
  additive,
  location  // additive, and each position hears where the one before it has looked
};

struct CrossAttentionScoreOptions {
  CrossAttentionScore kind = CrossAttentionScore::dot_product;
  std::int64_t kernel_size = 5;  // of location: places around a key whose probabilities are heard
};

// The score of a query and a key is w . tanh(q + k), with a w of each head: the projections of the
// layer are the two matrices of the small network, and the query's bias is its bias. All keys are
// needed at once: context ranks have a part of the heads each.
//
// With taps, the probabilities that the query before gave to the keys around a key are heard too,
// by a vector for each place: a convolution and the matrix that reads it in one. That makes queries
// follow one another, and their probabilities are kept.
class AdditiveAttentionOp : public AttentionOp {
 public:
  struct Options {
    std::int64_t heads = 0;        // of the model
    std::int64_t dim = 0;          // of a head
    std::int64_t kernel_size = 0;  // 0: no location is heard
    double dropout = 0;            // of the probabilities
    std::optional<Initializer> initial = {};
  };
  // Parameters "score" [heads, dim] and, with taps, "location" [heads, taps, dim].
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

// The mechanism of a layer's cross-attention, by its scores. scale: of scores that are products, as
// SoftmaxOptions::scale.
std::unique_ptr<AttentionOp> cross_attention_op(const Scope& attention,
                                                const CrossAttentionScoreOptions& scores,
                                                const AdditiveAttentionOp::Options& options,
                                                double scale = 0);

// What keeps cross-attention from having these scores, as a sentence; empty where nothing does.
std::string cross_scores_problem(const CrossAttentionScoreOptions& scores,
                                 std::int64_t heads,
                                 std::int64_t dim,
                                 const MeshShape& mesh);

}  // namespace longspan
