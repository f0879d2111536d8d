#include <bit>

#include "framework/kernels/attention/clusters.h"
#include "framework/kernels/cuda/block_reduce.h"
#include "framework/kernels/cuda/launch.h"

namespace longspan {
namespace {

// Maps numbers to integers of the same order; NaN comes first.
__device__ inline std::uint64_t ordered_bits(double value) {
  if (value != value) return 0;
  const auto bits = std::bit_cast<std::uint64_t>(value + 0.0);
  return bits >> 63 != 0 ? ~bits : bits | (std::uint64_t{1} << 63);
}
__device__ inline std::uint64_t ordered_bits(float value) {
  return ordered_bits(static_cast<double>(value));
}

// One block for each centroid: finds the smallest selected score bit by bit, then one thread writes
// the positions.
template <typename A>
__global__ void choose_members(std::int64_t heads,
                               std::int64_t clusters,
                               std::int64_t time,
                               std::int64_t width,
                               const std::int64_t* length,
                               const A* scores,
                               std::int32_t* position) {
  int* const scratch = shared_memory<int>();
  const std::int64_t i = blockIdx.x;
  const std::int64_t c = i % clusters, h = i / clusters % heads, b = i / clusters / heads;
  const A* const score = scores + i * time;
  std::int32_t* const found = position + ((b * clusters + c) * heads + h) * width;
  std::int64_t real = time;
  if (length != nullptr && length[b] < real) real = length[b] < 0 ? 0 : length[b];
  const auto count_from = [&](std::uint64_t least) {
    int count = 0;
    for (std::int64_t t = threadIdx.x; t < real; t += blockDim.x)
      count += ordered_bits(score[t]) >= least ? 1 : 0;
    return block_reduce(count, scratch, Plus());
  };
  std::uint64_t last = 0;
  if (real > width)
    for (int bit = 63; bit >= 0; --bit) {
      const std::uint64_t candidate = last | std::uint64_t{1} << bit;
      if (count_from(candidate) >= width) last = candidate;
    }
  const std::int64_t greater = real > width ? count_from(last + 1) : 0;
  if (threadIdx.x != 0) return;
  std::int64_t equals = width - greater, written = 0;
  for (std::int64_t t = 0; t < real; ++t) {
    const std::uint64_t bits = ordered_bits(score[t]);
    if (real > width && (bits < last || (bits == last && equals-- <= 0))) continue;
    found[written++] = static_cast<std::int32_t>(t);
  }
  for (; written < width; ++written) found[written] = -1;
}

// One feature of one centroid.
template <typename T>
struct AddClusterSum {
  using A = Accumulator<T>;
  std::int64_t batch, time, heads, dim, clusters;
  const std::int32_t* cluster;
  const T* x;
  A* sums;
  A* counts;

  __device__ void operator()(std::int64_t i) const {
    const std::int64_t d = i % dim, c = i / dim % clusters, h = i / dim / clusters;
    A sum = 0, count = 0;
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t t = 0; t < time; ++t) {
        if (cluster[(b * heads + h) * time + t] != c) continue;
        sum += wide(x[((b * time + t) * heads + h) * dim + d]);
        count += 1;
      }
    sums[i] += sum;
    if (d == 0) counts[i / dim] += count;
  }
};

}  // namespace

void cluster_members(Cuda cuda, const ClusterMembers& members) {
  check(members);
  const Shape& shape = members.scores.shape();
  constexpr int threads = 256;
  with_accumulator_type(members.scores.dtype(), [&]<typename A>(TypeTag<A>) {
    launch(cuda,
           {.blocks = shape[0] * shape[1] * shape[2],
            .threads = threads,
            .shared_bytes = threads / warp_size * sizeof(int)},
           choose_members<A>,
           shape[1],
           shape[2],
           shape[3],
           members.position.shape()[3],
           members.length.defined() ? members.length.data<std::int64_t>() : nullptr,
           members.scores.data<A>(),
           members.position.data<std::int32_t>());
  });
}

void add_cluster_sums(Cuda cuda, const ClusterSums& sums) {
  check(sums);
  const Shape& shape = sums.x.shape();
  with_floating_type(sums.x.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    for_each_element(cuda,
                     sums.sums.elements(),
                     AddClusterSum<T>{shape[0],
                                      shape[1],
                                      shape[2],
                                      shape[3],
                                      sums.sums.shape()[1],
                                      sums.cluster.data<std::int32_t>(),
                                      sums.x.data<T>(),
                                      sums.sums.data<A>(),
                                      sums.counts.data<A>()});
  });
}

}  // namespace longspan
