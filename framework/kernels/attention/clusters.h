// Assignment of tokens to centroids, and updates of the centroids (Routing Transformer, Roy et al.
// 2020).
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// Selects the `width` tokens most similar to each centroid (ties go to the earlier token), as
// ascending positions, followed by -1 if there are fewer. scores: [batch, heads, clusters, time],
// f32 or f64. length: [batch] i64 or undefined; tokens from there on are padding and are not
// selected. position: [batch, clusters, heads, width] i32, overwritten.
struct ClusterMembers {
  Tensor scores;
  Tensor position;
  Tensor length = {};
};
void cluster_members(Cpu, const ClusterMembers&);
void cluster_members(Cuda, const ClusterMembers&);

// Finds the most similar centroid of each token (ties go to the first); padding gets the number of
// clusters. cluster: [batch, heads, 1, time] i32, overwritten, in the format that
// attention/hash_buckets.h sorts.
struct NearestCluster {
  Tensor scores;
  Tensor cluster;
  Tensor length = {};
};
void nearest_cluster(Cpu, const NearestCluster&);
void nearest_cluster(Cuda, const NearestCluster&);

// Adds to each centroid's sum the tokens nearest to it, and their number to its count. x: [batch,
// time, heads, dim]; cluster: as above. sums: [heads, clusters, dim] and counts: [heads, clusters],
// both in x's accumulator dtype.
struct ClusterSums {
  Tensor x;
  Tensor cluster;
  Tensor sums;
  Tensor counts;
};
void add_cluster_sums(Cpu, const ClusterSums&);
void add_cluster_sums(Cuda, const ClusterSums&);

// centroid = decay * centroid + (1 - decay) * sum / |sum| for centroids with a token. With `unit`
// it is then scaled to unit length. centroids, sums: [heads, clusters, dim], counts: [heads,
// clusters], f32 or f64.
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

// Throws Failure if the shapes or dtypes of the tensors do not match.
void check(const ClusterMembers&);
void check(const NearestCluster&);
void check(const ClusterSums&);
void check(const UpdateCentroids&);
void check(const DivideRows&);

}  // namespace longspan
