// Tokens by their similarity to centroids, and centroids that follow their tokens (Routing
// Transformer, Roy et al. 2020).
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// The `width` tokens that are most similar to each centroid, the earlier of equals, by their
// positions in ascending order; -1 at the end where there are fewer. scores: [batch, heads,
// clusters, time], f32 or f64; length: [batch] i64 or undefined, tokens from there on are padding
// and are not chosen. position: [batch, clusters, heads, width] i32, written.
struct ClusterMembers {
  Tensor scores;
  Tensor position;
  Tensor length = {};
};
void cluster_members(Cpu, const ClusterMembers&);
void cluster_members(Cuda, const ClusterMembers&);

// The most similar centroid of each token, the first of equals; padding has the number of
// clusters. cluster: [batch, heads, 1, time] i32, written, as attention/hash_buckets.h sorts it.
struct NearestCluster {
  Tensor scores;
  Tensor cluster;
  Tensor length = {};
};
void nearest_cluster(Cpu, const NearestCluster&);
void nearest_cluster(Cuda, const NearestCluster&);

// Adds to each centroid's sum the tokens that are nearest to it, and to its count how many. x:
// [batch, time, heads, dim]; cluster: as above; sums: [heads, clusters, dim] and counts: [heads,
// clusters] of x's accumulator.
struct ClusterSums {
  Tensor x;
  Tensor cluster;
  Tensor sums;
  Tensor counts;
};
void add_cluster_sums(Cpu, const ClusterSums&);
void add_cluster_sums(Cuda, const ClusterSums&);

// centroid = decay * centroid + (1 - decay) * sum / |sum|, where there was a token; with `unit` it
// is then made one long. centroids, sums: [heads, clusters, dim], counts: [heads, clusters], f32 or
// f64.
struct UpdateCentroids {
  Tensor centroids;
  Tensor sums;
  Tensor counts;
  double decay = 0.999;
  bool unit = true;
};
void update_centroids(Cpu, const UpdateCentroids&);
void update_centroids(Cuda, const UpdateCentroids&);

// y[r, :] = x[r, :] / (count[r] + floor), zeros where the count is 0. x, y: [rows, dim] of any
// floating dtypes; count: [rows], f32 or f64.
struct DivideRows {
  Tensor x;
  Tensor count;
  double floor = 0;
  Tensor y;
};
void divide_rows(Cpu, const DivideRows&);
void divide_rows(Cuda, const DivideRows&);

// Throw Failure where the tensors do not fit each other.
void check(const ClusterMembers&);
void check(const NearestCluster&);
void check(const ClusterSums&);
void check(const UpdateCentroids&);
void check(const DivideRows&);

}  // namespace longspan
