// Attention inside clusters of tokens (Routing Transformer, Roy et al. 2020) as recorded ops.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/autograd/ops.h"

namespace longspan {

// Each head's tokens at some positions: y[b * groups + g, i, h, :] = x[b, position[b, g, h, i], h,
// :], zeros where the position is negative. x: [batch, time, heads, dim]; position: [batch, groups,
// heads, width] i32, in which no position comes twice in a group; result: [batch * groups, width,
// heads, dim].
Variable gather_clusters(const Variable& x, const Tensor& position);

// The way back: the sum of what a token is in all groups, divided by `floor` plus their number;
// zeros for a token in none. y: [batch * groups, width, heads, dim]; result: [batch, time, heads,
// dim].
Variable scatter_mean(const Variable& y,
                      const Tensor& position,
                      std::int64_t time,
                      double floor = 0);

struct RoutedAttention {
  // Of the members of each cluster, in ascending order: [batch, clusters, heads, width] i32. Where
  // queries and keys are one projection it is one tensor.
  Tensor query_position;
  Tensor key_position;
  bool causal = true;                     // by positions
  std::optional<double> self_score = {};  // of a token with itself; none: the product
  double count_floor = 0;                 // added to the number of clusters a token is in
  // Of each cluster, seen by all of its queries: [clusters, rows, heads, dim], may be undefined.
  // Not with a self score.
  Variable memory_key = {};
  Variable memory_value = {};
};

// The mean over its clusters of what a query's softmax attention over the members of each gives,
// zeros where it is in none. query, key, value: [batch, time, heads, dim]. The dropout's batch rows
// are clusters: `batch_begin` counts rows of the batch.
Variable routed_attention(const Variable& query,
                          const Variable& key,
                          const Variable& value,
                          const RoutedAttention& options,
                          const std::optional<AttentionDropout>& dropout = {});

// Attention in which a token sees itself and the `width` tokens of its cluster before it. cluster:
// [batch, heads, 1, time] i32 as attention/clusters.h finds it; padding sees nothing and is not
// seen. No token depends on a later one.
struct CausalClusters {
  Tensor cluster;
  std::int64_t clusters = 1;
  std::int64_t width = 1;
  std::optional<double> self_score = {};
};
Variable clustered_attention(const Variable& query,
                             const Variable& key,
                             const Variable& value,
                             const CausalClusters& options,
                             const std::optional<AttentionDropout>& dropout = {});

}  // namespace longspan
