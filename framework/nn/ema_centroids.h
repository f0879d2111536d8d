// What a model learns by following its activations and not by gradients: centroids of clusters.
#pragma once

#include <string>

#include "framework/core/random.h"
#include "framework/core/tensor.h"
#include "framework/distributed/communicator.h"

namespace longspan {

// Unit vectors, [heads, clusters, dim], of this tensor rank's heads. A step adds up what is nearest
// to each, over all rows and ranks; after the update of the weights each follows its sum
// (kernels/attention/clusters.h). All of it lies whole on every rank that has the heads, and a
// checkpoint has the centroids.
struct EmaCentroids {
  std::string name;
  std::int64_t head_begin = 0;
  std::int64_t heads_total = 0;
  double decay = 0.999;
  Tensor centroids = {};  // f32, or f64 when computing in f64
  Tensor sums = {};       // of this rank's rows in this step
  Tensor counts = {};     // [heads, clusters]

  Shape global_shape() const { return centroids.shape().with(0, heads_total); }
  // Draws the centroids: a function of the seed, the name and the head.
  void begin(const Random& random) const;
  // After a step: the sums of all `ranks` move the centroids where `moves`, and are forgotten.
  // Collective where they move.
  void end_step(const Communicator& ranks, bool moves) const;
};

}  // namespace longspan
