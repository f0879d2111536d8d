// A rank's shards of activations and parameters, cut from the full tensors of one process.
#pragma once

#include <algorithm>

#include "framework/nn/parameters.h"
#include "framework/nn/sequence_shard.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::testing {

// A rank's rows of a batch, and its positions of a sequence of `total` positions.
struct Held {
  Range rows;
  SequenceShard time;

  Held(const ProcessMesh& mesh, std::int64_t batch, std::int64_t total)
      : rows{batch * mesh.data.rank() / mesh.data.size(),
             batch * (mesh.data.rank() + 1) / mesh.data.size()},
        time(shard_sequence(mesh, total)) {}

  // Returns this rank's shard of activations [batch, total, n].
  Tensor of(const Tensor& whole) const { return cut<double>(whole, time.outside()); }
  // Returns this rank's shard of ids [batch, total], with all positions inside split regions.
  Tensor ids_of(const Tensor& whole) const {
    const Shape shape = whole.shape();
    const Tensor ids = cut<std::int64_t>(whole.reshape({shape[0], shape[1], 1}), time.inside());
    return ids.reshape({ids.shape()[0], ids.shape()[1]});
  }
  Tensor lengths(const std::vector<std::int64_t>& of_batch) const {
    return Tensor::from<std::int64_t>({of_batch.begin() + rows.begin, of_batch.begin() + rows.end},
                                      {rows.count()},
                                      backend_device());
  }

 private:
  template <typename T>
  Tensor cut(const Tensor& whole, const Ranges& positions) const {
    const std::int64_t n = whole.shape()[2];
    const Tensor result =
        Tensor::empty({rows.count(), total_count(positions), n}, whole.dtype(), backend_device());
    T* to = result.data<T>();
    for (std::int64_t b = rows.begin; b < rows.end; ++b)
      for (const Range& range : positions)
        to = std::copy_n(
            whole.data<T>() + (b * whole.shape()[1] + range.begin) * n, range.count() * n, to);
    return result;
  }
};

// Returns this rank's shard of a full parameter or gradient.
inline Tensor piece_of(const Tensor& whole, const Parameter& parameter) {
  if (!parameter.split()) return whole;
  const Tensor result = Tensor::empty(parameter.shape, DType::f64, backend_device());
  std::int64_t inner = 1;
  for (int axis = parameter.split_axis + 1; axis < whole.shape().dimensions(); ++axis)
    inner *= whole.shape()[axis];
  const std::int64_t count = inner * parameter.part.count;
  for (std::int64_t i = 0; i * count < result.elements(); ++i)
    std::copy_n(whole.data<double>() + (i * parameter.part.total + parameter.part.begin) * inner,
                count,
                result.data<double>() + i * count);
  return result;
}

// Returns the gradients of the parameters, summed over all ranks.
inline std::vector<Tensor> summed_gradients(const Parameters& parameters) {
  const ProcessMesh& mesh = parameters.mesh();
  std::vector<Tensor> result;
  for (const auto& parameter : parameters.all()) {
    result.push_back(parameter->variable.gradient().clone());
    const Communicator& ranks = parameters.divided(*parameter) ? mesh.world : mesh.replicas;
    ranks.all_reduce(result.back(), Reduction::sum);
  }
  return result;
}

}  // namespace longspan::testing
