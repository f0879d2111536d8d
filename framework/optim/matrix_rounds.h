// Work on whole matrices that are cut over ranks: each has a home rank.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "framework/nn/parameters.h"
#include "framework/optim/state_buffer.h"

namespace longspan {

// Rows and columns of a tensor of two axes or more: all but the first are columns.
std::pair<std::int64_t, std::int64_t> matrix_of(const Shape& shape);

// The ranks that hold the pieces of a matrix work on as many matrices at once as they are: in each
// round one reduce-scatter brings every rank a whole matrix, and one all-gather brings all of them
// back. They are the tensor ranks where each replica has all that is there, and all ranks where the
// replicas share it out. A round takes, as scratch on every rank, as many matrices as there are
// ranks; matrices of like size share one. The parameters outlive it.
class DistributedMatrixUpdate {
 public:
  DistributedMatrixUpdate(const Parameters& parameters, const StateBuffer::Which& which);

  // Changes the gradients of the matrices: `change` is called once for each on its home rank, with
  // the whole matrix [rows, columns] in the masters' dtype. Collective.
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
