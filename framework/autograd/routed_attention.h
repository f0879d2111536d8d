// Attention inside clusters of tokens (Routing Transformer, Roy et al. 2020) as recorded ops.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/autograd/ops.h"

namespace longspan {

// Gathers tokens by position for each head: y[b * groups + g, i, h, :] = x[b, position[b, g, h, i],
// h, :], and zeros where the position is negative. x: [batch, time, heads, dim]; position: [batch,
// groups, heads, width] i32, distinct within a group. Returns [batch * groups, width, heads, dim].
Variable gather_clusters(const Variable& x, const Tensor& position);

// Inverse: the sum of a token over all groups, divided by `floor` plus their number. Zeros for a
// token in no group. y: [batch * groups, width, heads, dim]. Returns [batch, time, heads, dim].
Variable scatter_mean(const Variable& y,
                      const Tensor& position,
                      std::int64_t time,
                      double floor = 0);

struct RoutedAttention {
  // Positions of the members of each cluster, ascending: [batch, clusters, heads, width] i32. One
  // tensor if queries and keys are one projection.
  Tensor query_position;
  Tensor key_position;
  bool causal = true;                     // by positions
  std::optional<double> self_score = {};  // score of a token with itself; none: the product
  double count_floor = 0;                 // added to the number of clusters of a token
  // Extra keys and values of each cluster, visible to all of its queries: [clusters, rows, heads,
  // dim], may be undefined. Not supported with a self score.
  Variable memory_key = {};
  Variable memory_value = {};
};

// Returns the mean, over the clusters of a query, of its softmax attention to the cluster's
// members, or zeros if it is in no cluster. query, key, value: [batch, time, heads, dim]. Batch
// rows of the dropout are clusters: `batch_begin` counts rows of the batch.
Variable routed_attention(const Variable& query,
                          const Variable& key,
                          const Variable& value,
                          const RoutedAttention& options,
                          const std::optional<AttentionDropout>& dropout = {});

// Attention of a token to itself and the `width` previous tokens of its cluster. cluster: [batch,
// heads, 1, time] i32 from attention/clusters.h. Padding is masked, as query and key. No token
// depends on a later one.
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
