// Newton-Schulz iteration of Muon, distributed over ranks: each matrix has a home rank.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "framework/core/tensor.h"
#include "framework/nn/parameters.h"
#include "framework/optim/optimizer_rule.h"

namespace longspan {

// Orthogonalizes matrix [rows, columns], f32 or f64, in place. Its singular values, divided by its
// norm, approach 1 (0.7 to 1.2 after 5 iterations); zeros remain. The fifth-degree iteration is
//   X <- 3.4445 X - 4.7750 (X X^T) X + 2.0315 (X X^T)^2 X
// with the coefficients of Jordan et al. 2024.
void orthogonalize(const Tensor& matrix, std::int64_t iterations);

// Returns rows and columns of a tensor with at least two axes; all axes after the first are
// columns.
std::pair<std::int64_t, std::int64_t> matrix_of(const Shape& shape);

// The ranks that hold the shards of a matrix process one matrix each per round. A reduce-scatter
// assembles an unsharded matrix on every rank, and an all-gather redistributes the results. The
// group is the tensor ranks if replicas hold everything, and all ranks if replicas shard it. A
// round needs scratch for as many matrices as there are ranks, on every rank; matrices of similar
// size share a round. The parameters must outlive it.
class DistributedMatrixUpdate {
 public:
  DistributedMatrixUpdate(const Parameters& parameters, const StateBuffer::Which& which);

  // Collective. Updates the gradients of the matrices in place. `change` is called once per matrix
  // on its home rank, with the unsharded matrix [rows, columns] in the dtype of the masters.
  void of_gradients(const std::function<void(const Tensor& whole)>& change) const;

 private:
  using Round = std::vector<const Parameter*>;

  void run(const Round& round, const std::function<void(const Tensor& whole)>& change) const;
  bool fills_in(const Parameter& parameter) const;

  const Parameters& parameters_;
  Communicator ranks_;
  std::vector<Round> rounds_;
};

}  // namespace longspan
