// What a power norm learns by following its rows and their gradients, and not by its own gradients.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/autograd/power_norm.h"
#include "framework/distributed/communicator.h"
#include "framework/nn/forward_context.h"

namespace longspan {

// How the statistics of power norms move (Shen et al. 2020).
struct PowerOptions {
  double decay = 0.9;          // of the moving averages
  std::int64_t warmup = 4000;  // the first steps, in which rows are divided by their own squares
};

// Of all positions of a batch but padding, over all ranks that have some. It lies whole on every
// rank; checkpoints have `square` and `slope`. f32, or f64 when computing in f64.
struct PowerStatistics {
  std::string name;  // of the norm
  PowerOptions options = {};
  double epsilon = 1e-5;
  Tensor square = {};  // [width]: the moving mean of squares, 1 at first
  Tensor slope = {};   // [width]: that of the gradient times the normed rows, 0 at first
  // Of this rank's rows in this step: sums of squares and of such products, and the rows' number.
  Tensor sums = {};  // [2 width + 1], in which the others lie; undefined: all stays as it is
  Tensor squares = {};
  Tensor products = {};
  Tensor count = {};
  bool divided_by_own = false;  // in this step
  Communicator ranks = {};      // that have rows of the batch

  std::int64_t width() const { return square.elements(); }
  // What a checkpoint has of it.
  std::vector<std::pair<std::string, Tensor>> saved() const {
    return {{name + "/square", square}, {name + "/slope", slope}};
  }
  void begin() const;
  // After a step: the sums of all ranks move the averages where `moves`, and are forgotten.
  // Collective where they move.
  void end_step(bool moves) const;
};

// How rows that the averages do not follow are divided: by the moving average, a constant.
PowerRows divided_by_average(const PowerStatistics& statistics);

// How rows x [batch, time, width] of a pass are divided. In training the averages follow them, but
// for positions at length[b] [batch] i64 (may be undefined) and after, which are padding: once,
// also where the pass computes again. In the first steps rows are divided by the mean of their own
// squares over all ranks, and the gradient is exact; that is collective, in both directions, of
// each part of a batch that is taken by itself. Later by the average of the steps before, and the
// gradient is the paper's approximation, with the average of the slopes of the steps before in
// place of what the statistics would bring. A pass without training, or one that only asks, moves
// nothing. Of statistics that stay as they are rows are always divided as without training.
// `beside`: the same rows are read by this norm once more in the pass, which decides for both. What
// the statistics take away from their gradient is then taken there.
PowerRows followed(const std::shared_ptr<PowerStatistics>& statistics,
                   const Tensor& x,
                   const Tensor& length,
                   const ForwardContext& pass,
                   bool beside = false);

}  // namespace longspan
