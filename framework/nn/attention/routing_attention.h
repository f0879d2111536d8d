// Attention of tokens that are nearest to the same centroid (Routing Transformer, Roy et al. 2020).
#pragma once

#include <optional>

#include "framework/nn/attention/attention_kind.h"
#include "framework/options/options.h"

namespace longspan {

struct RoutingOptions {
  std::optional<std::int64_t> clusters = {};  // none: about the root of the length
  std::optional<std::int64_t> width = {};     // of a cluster; none: length / clusters
  bool shared = true;                         // queries and keys are one projection
  bool strict = false;                        // no token depends on a later one
  double decay = 0.999;
};

// The keys model.attention.routing.*.
void declare(OptionTable& table, RoutingOptions& options);

// Queries, and keys, are compared with the centroids of their head by direction. As published each
// centroid takes the `width` tokens nearest to it, which see one another; what a token is in
// several clusters is averaged, and in none it is zero. Which tokens a cluster takes depends on all
// of them: causal attention never reads a later token's value, but which earlier ones it sees
// depends on later tokens too. `strict` does not: a token sees itself and the last `width` tokens
// before it that have the same nearest centroid.
//
// Clusters are a decision of the pass (Pass::decide). In training centroids follow what is nearest
// to them, over all rows and ranks, once a step.
class RoutingAttention : public AttentionOp {
 public:
  struct Options {
    RoutingOptions routing;
    std::int64_t clusters = 0;
    std::int64_t heads = 0;  // of the model
    std::int64_t dim = 0;    // of a head
    double dropout = 0;      // of the probabilities
  };
  // Centroids "centroids" [heads, clusters, dim]. Throws ConfigurationError where context and
  // tensor ranks do not divide the heads.
  RoutingAttention(const Scope& scope, const Options& options);
  bool ties_query_and_key() const override { return options_.shared; }
  // Throws ConfigurationError for a memory and for rules other than causal or none.
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;

 private:
  // What is asked of the centroids about x: a part of this rank's heads from `head` on.
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
