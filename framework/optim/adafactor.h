// Factored second moments of Adafactor.
#pragma once

#include <vector>

#include "checkpoints/training_state.h"
#include "framework/nn/parameters.h"

namespace longspan {

// Factored second moments (Adafactor): moving averages of squared gradients by row and by column.

// Over the last two axes of every parameter with at least two; earlier axes count matrices. The
// moments cover unsharded tensors and are small: every rank holds all of them, in f64, and the
// first rank saves them. The parameters must outlive it.
class FactoredSecondMoment {
 public:
  explicit FactoredSecondMoment(const Parameters& parameters);

  static bool has(const Parameter& parameter) { return parameter.global_shape.dimensions() > 1; }

  // Collective. means = beta2 * means + (1 - beta2) * means of (factor * gradient)^2 + epsilon.
  void update(double factor, double epsilon, double beta2);
  // Replaces shard_gradient of parameter `index` by factor * shard_gradient / sqrt(v). v[r, c] is
  // row mean r times column mean c over the mean of the rows.
  void divide_by_root(std::size_t index, double factor) const;

  // "optimizer/exp_avg_sq_row/PARAMETER", the shape without the last axis, and
  // "optimizer/exp_avg_sq_col/PARAMETER", without the last but one.
  void add_to(TrainingState& state) const;

 private:
  // Moments of a parameter; empty for a vector.
  struct Means {
    Tensor rows;
    Tensor columns;
    // Indices of this rank's rows and columns in the unsharded tensor.
    std::vector<std::int64_t> row_positions = {};
    std::vector<std::int64_t> column_positions = {};
  };

  const Parameters& parameters_;
  std::vector<Means> means_;
};

}  // namespace longspan
