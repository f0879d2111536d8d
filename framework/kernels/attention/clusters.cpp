#include "framework/kernels/attention/clusters.h"

#include "framework/kernels/element.h"

namespace longspan {
namespace {

void check_scores(const char* kernel, const Tensor& scores, const Tensor& length) {
  require(scores.shape().dimensions() == 4 && scores.dtype() == accumulator_of(scores.dtype()),
          "{}: expected scores f32 or f64 [batch, heads, clusters, time], found {} {}",
          kernel,
          name_of(scores.dtype()),
          scores.shape());
  if (length.defined()) require_tensor(kernel, "length", length, {scores.shape()[0]}, DType::i64);
}

}  // namespace

void check(const ClusterMembers& members) {
  check_scores("cluster_members", members.scores, members.length);
  const Shape& scores = members.scores.shape();
  const Shape& found = members.position.shape();
  require(found.dimensions() == 4,
          "cluster_members: expected position with 4 dimensions, found {}",
          found);
  require_tensor("cluster_members",
                 "position",
                 members.position,
                 {scores[0], scores[2], scores[1], found[3]},
                 DType::i32);
}

void check(const NearestCluster& nearest) {
  check_scores("nearest_cluster", nearest.scores, nearest.length);
  const Shape& scores = nearest.scores.shape();
  require_tensor("nearest_cluster",
                 "cluster",
                 nearest.cluster,
                 {scores[0], scores[1], 1, scores[3]},
                 DType::i32);
}

void check(const ClusterSums& sums) {
  const Shape& x = sums.x.shape();
  require(x.dimensions() == 4 && sums.sums.shape().dimensions() == 3,
          "add_cluster_sums: x {} does not match sums {}",
          x,
          sums.sums.shape());
  const std::int64_t clusters = sums.sums.shape()[1];
  const DType wide = accumulator_of(sums.x.dtype());
  require_tensor("add_cluster_sums", "sums", sums.sums, {x[2], clusters, x[3]}, wide);
  require_tensor("add_cluster_sums", "counts", sums.counts, {x[2], clusters}, wide);
  require_tensor("add_cluster_sums", "cluster", sums.cluster, {x[0], x[2], 1, x[1]}, DType::i32);
}

void check(const UpdateCentroids& move) {
  const Shape& shape = move.centroids.shape();
  const DType dtype = move.centroids.dtype();
  require(shape.dimensions() == 3 && dtype == accumulator_of(dtype),
          "move_centroids: expected centroids f32 or f64 [heads, clusters, dim], found {} {}",
          name_of(dtype),
          shape);
  require_tensor("move_centroids", "sums", move.sums, shape, dtype);
  require_tensor("move_centroids", "counts", move.counts, {shape[0], shape[1]}, dtype);
}

void check(const DivideRows& divide) {
  require(divide.y.elements() == divide.x.elements() &&
              divide.count.elements() == divide.x.shape().rows() &&
              divide.count.dtype() == accumulator_of(divide.count.dtype()),
          "divide_rows: x {}, y {} and {} {} counts do not match",
          divide.x.shape(),
          divide.y.shape(),
          divide.count.elements(),
          name_of(divide.count.dtype()));
}

}  // namespace longspan
