// Moving means of squared gradients of matrices, kept by row and by column.
#pragma once

#include <vector>

#include "checkpoints/training_state.h"
#include "framework/nn/parameters.h"

namespace longspan {

// Of the last two axes of every parameter that has two or more; the axes before them count
// matrices. They are means over whole tensors and small: every rank holds all of them, in f64, and
// the first saves them. The parameters outlive it.
class FactoredSecondMoment {
 public:
  explicit FactoredSecondMoment(const Parameters& parameters);

  static bool has(const Parameter& parameter) { return parameter.global_shape.dimensions() > 1; }

  // means = beta2 * means + (1 - beta2) * means of (factor * gradient)^2 + epsilon. Collective.
  void update(double factor, double epsilon, double beta2);
  // shard_gradient of parameter `index` of all becomes factor * shard_gradient / sqrt(v), where
  // v[r, c] is row r's mean times column c's over the mean of the rows.
  void divide_by_root(std::size_t index, double factor) const;

  // "optimizer/rows/PARAMETER", the shape without the last axis, and "optimizer/columns/PARAMETER",
  // without the last but one.
  void add_to(TrainingState& state) const;

 private:
  // Of one parameter; nothing of a vector.
  struct Means {
    Tensor rows;
    Tensor columns;
    // Where the rows and columns of this rank's piece are among those of the whole.
    std::vector<std::int64_t> row_places = {};
    std::vector<std::int64_t> column_places = {};
  };

  const Parameters& parameters_;
  std::vector<Means> means_;
};

}  // namespace longspan
