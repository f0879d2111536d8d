// Cluster centroids, which follow moving averages of the activations instead of gradients.
#pragma once

#include <string>

#include "framework/core/random.h"
#include "framework/core/tensor.h"
#include "framework/distributed/communicator.h"

namespace longspan {

// Unit vectors [heads, clusters, dim] of this tensor rank's heads. A step sums the vectors nearest
// to each centroid over all rows and ranks. After the weight update, each centroid moves towards
// its sum (kernels/attention/clusters.h). Centroids are replicated on every rank that has the
// heads, and are part of the checkpoint.
struct EmaCentroids {
  std::string name;
  std::int64_t head_begin = 0;
  std::int64_t heads_total = 0;
  double decay = 0.999;
  Tensor centroids = {};  // f32, or f64 when computing in f64
  Tensor sums = {};       // over this rank's rows in this step
  Tensor counts = {};     // [heads, clusters]

  Shape global_shape() const { return centroids.shape().with(0, heads_total); }
  // Initializes the centroids as a function of seed, name and head.
  void begin(const Random& random) const;
  // Ends a step: if `moves`, moves the centroids by the sums of all `ranks`. Then clears the sums.
  // Collective if `moves`.
  void end_step(const Communicator& ranks, bool moves) const;
};

}  // namespace longspan
