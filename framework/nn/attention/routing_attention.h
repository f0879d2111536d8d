// Attention between tokens with the same nearest centroid (Routing Transformer, Roy et al. 2020).
#pragma once

#include <optional>

#include "framework/nn/attention/attention_kind.h"
#include "framework/options/options.h"

namespace longspan {

struct RoutingOptions {
  std::optional<std::int64_t> clusters = {};  // none: about the square root of the length
  std::optional<std::int64_t> width = {};     // per cluster; none: length / clusters
  bool shared = true;                         // queries and keys are one projection
  bool strict = false;                        // no token depends on a later one
  double decay = 0.999;
};

// Declares the keys model.attention.routing.*.
void declare(OptionTable& table, RoutingOptions& options);

// Queries and keys are compared with the centroids of their head by direction. As published, each
// centroid selects the `width` nearest tokens, which attend to each other. A token's output is the
// mean over its clusters, or zero if it is in none. The tokens of a cluster depend on all tokens.
// Causal attention never reads a later token's value, but the selection of earlier tokens depends
// on later ones. With `strict` it does not: a token attends to itself and to the last `width`
// earlier tokens with the same nearest centroid.
//
// Clusters are cached with ForwardContext::decide. In training, centroids follow the vectors
// nearest to them over all rows and ranks, once per step.
class RoutingAttention : public AttentionOp {
 public:
  struct Options {
    RoutingOptions routing;
    std::int64_t clusters = 0;
    std::int64_t heads = 0;  // total heads of the model
    std::int64_t dim = 0;    // per head
    double dropout = 0;      // on the probabilities
  };
  // Parameters: centroids "centroids" [heads, clusters, dim]. Throws ConfigurationError if context
  // and tensor ranks do not divide the heads.
  RoutingAttention(const Scope& scope, const Options& options);
  bool ties_query_and_key() const override { return options_.shared; }
  // Throws ConfigurationError for a memory and for rules other than causal or none.
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;

 private:
  // Returns the cluster decision for x, a subset of this rank's heads from `head` on.
  Tensor decided(const Variable& x,
                 std::int64_t head,
                 const Tensor& length,
                 const ForwardContext& pass) const;

  RoutingOptions options_;
  double dropout_;
  std::shared_ptr<const EmaCentroids> centroids_;
};

AttentionKind routing_kind();

}  // namespace longspan
