// Running statistics, which follow the activations and their gradients instead of being trained:
// those of power norms, and cluster centroids.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/autograd/norms.h"
#include "framework/core/random.h"
#include "framework/core/tensor.h"
#include "framework/distributed/communicator.h"
#include "framework/nn/forward_context.h"

namespace longspan {

// Updates of the power norm statistics (Shen et al. 2020).
struct PowerOptions {
  double decay = 0.9;  // of the moving averages
  // number of first steps, in which rows are normalized by batch statistics
  std::int64_t warmup = 4000;
};

// Statistics over all positions of a batch except padding and over all ranks that have some.
// Replicated on every rank. Checkpoints contain `square` and `slope`. f32, or f64 with compute
// dtype f64.
struct PowerStatistics {
  std::string name;  // name of the norm
  PowerOptions options = {};
  double epsilon = 1e-5;
  Tensor square = {};  // [width]: moving mean of squares, initially 1
  Tensor slope = {};   // [width]: moving mean of gradient times normalized row, initially 0
  // Sums over this rank's rows in this step: squares, these products and the number of rows.
  // [2 width + 1], storage of the three below; undefined: the statistics are frozen
  Tensor sums = {};
  Tensor squares = {};
  Tensor products = {};
  Tensor count = {};
  bool divided_by_batch = false;  // in this step, rows were normalized by batch statistics
  Communicator ranks = {};        // ranks that have rows of the batch

  std::int64_t width() const { return square.elements(); }
  // Returns the tensors that a checkpoint stores.
  std::vector<std::pair<std::string, Tensor>> saved() const {
    return {{name + "/square", square}, {name + "/slope", slope}};
  }
  void begin() const;
  // Ends a step: if `moves`, updates the averages by the sums of all ranks. Then clears the sums.
  // Collective if `moves`.
  void end_step(bool moves) const;
};

// Returns the normalization of rows that do not update the averages: by the moving average, as a
// constant.
PowerRows divided_by_average(const PowerStatistics& statistics);

// Returns the normalization of rows x [batch, time, width] of a pass. length: [batch] i64,
// positions before padding, may be undefined. In training the averages include the rows without
// padding, once even if the pass recomputes them.
//
// During warmup rows are normalized by the mean of their own squares over all ranks, and the
// gradient is exact. This is collective, forward and backward, for each part of a batch that is
// processed separately. After warmup rows are normalized by the average of earlier steps. The
// gradient is then the approximation of the paper, which replaces the term of the statistics by the
// average slope of earlier steps.
//
// A pass without training, or with updates_statistics false, updates nothing. Frozen statistics
// always normalize as outside training. The last parameter is true if this norm reads the same rows
// a second time in the pass. The second read uses the same decision. The gradient correction is
// then applied there.
PowerRows followed(const std::shared_ptr<PowerStatistics>& statistics,
                   const Tensor& x,
                   const Tensor& length,
                   const ForwardContext& pass,
                   bool second_read = false);

// Cluster centroids, which follow moving averages of the activations instead of gradients.

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
