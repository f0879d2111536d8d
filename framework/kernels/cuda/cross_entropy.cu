#include <limits>

#include "framework/kernels/cross_entropy.h"
#include "framework/kernels/cuda/row_io.h"
#include "framework/kernels/vector_math.h"

namespace longspan {
namespace {

// The columns of a rank's logits.
struct Columns {
  std::int64_t width;
  std::int64_t valid;
  std::int64_t begin;  // vocabulary index of the first column

  // Local column of a target, or -1.
  __device__ std::int64_t of(std::int64_t target) const {
    const std::int64_t local = target - begin;
    return target >= 0 && local >= 0 && local < valid ? local : -1;
  }
};

// exp(x - maximum); a maximum of -inf means that there is no value yet.
template <typename A>
__device__ A relative(A x, A maximum) {
  return fast_exp(maximum == -std::numeric_limits<A>::infinity() ? x : x - maximum);
}

// One block for each row. The row may exceed the caches, so it is read once, with a sum relative to
// the running maximum.
template <typename T, typename A>
__global__ void row_statistics(Columns columns,
                               const T* logits,
                               const std::int64_t* targets,
                               A* maxima,
                               A* sums,
                               A* target_logits,
                               A* totals) {
  A* const scratch = shared_memory<A>();
  const T* const row = logits + blockIdx.x * columns.width;
  const A least = -std::numeric_limits<A>::infinity();
  A largest = least, sum = 0, total = 0;
  each_read_four(
      row, columns.valid, columns.width, [&](std::int64_t first, const Vec4<T>& lane_logits) {
        A values[4];
        A highest = largest;
        for (int k = 0; k < 4; ++k) {
          const bool counts = first + k < columns.valid;
          values[k] = counts ? wide(lane_logits.at[k]) : least;
          if (counts) total += values[k];
          highest = Max()(values[k], highest);
        }
        // If the maximum is -inf, the sum is 0, or NaN, which must propagate.
        if (highest > largest) sum *= relative(largest, highest);
        largest = highest;
        for (int k = 0; k < 4; ++k) sum += relative(values[k], largest);
      });
  const A maximum = block_reduce(largest, scratch, Max());
  // The sum of a row of -inf is 0; any NaN makes it NaN.
  if (largest != maximum) sum *= relative(largest, maximum);
  block_reduce_sum(sum, total, scratch);
  if (threadIdx.x > 0) return;
  const std::int64_t target = columns.of(targets[blockIdx.x]);
  maxima[blockIdx.x] = maximum;
  sums[blockIdx.x] = sum;
  target_logits[blockIdx.x] = target < 0 ? A{0} : wide(row[target]);
  if (totals != nullptr) totals[blockIdx.x] = total;
}

template <typename T, typename A>
__global__ void row_gradients(Columns columns,
                              T* logits,
                              const std::int64_t* targets,
                              const A* log_sum_exps,
                              const A* scales,
                              A on_target,
                              A off_target) {
  T* const row = logits + blockIdx.x * columns.width;
  const bool counts = targets[blockIdx.x] >= 0;
  const std::int64_t target = columns.of(targets[blockIdx.x]);
  const A log_sum_exp = log_sum_exps[blockIdx.x], scale = scales[blockIdx.x];
  each_read_four(
      row, columns.width, columns.width, [&](std::int64_t first, const Vec4<T>& lane_logits) {
        Vec4<T> gradients;
        for (int k = 0; k < 4; ++k) {
          const std::int64_t v = first + k;
          A gradient = 0;
          if (counts && v < columns.valid)
            gradient = scale * (fast_exp(wide(lane_logits.at[k]) - log_sum_exp) -
                                (v == target ? on_target + off_target : off_target));
          put(gradients.at[k], gradient);
        }
        write_four(row, first, columns.width, gradients);
      });
}

}  // namespace

void cross_entropy_statistics(Cuda cuda, const CrossEntropyStatistics& entropy) {
  check(entropy);
  const Shape& shape = entropy.logits.shape();
  with_floating_type(entropy.logits.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    launch(cuda,
           row_grid<A>(shape.rows(), shape.width()),
           row_statistics<T, A>,
           Columns{shape.width(), entropy.valid_width, entropy.vocabulary_begin},
           entropy.logits.data<T>(),
           entropy.targets.data<std::int64_t>(),
           entropy.maximum.data<A>(),
           entropy.sum.data<A>(),
           entropy.target.data<A>(),
           entropy.total.defined() ? entropy.total.data<A>() : nullptr);
  });
}

void cross_entropy_backward(Cuda cuda, const CrossEntropyGradient& entropy) {
  check(entropy);
  const Shape& shape = entropy.logits.shape();
  with_floating_type(entropy.logits.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    launch(cuda,
           row_grid<A>(shape.rows(), shape.width()),
           row_gradients<T, A>,
           Columns{shape.width(), entropy.valid_width, entropy.vocabulary_begin},
           entropy.logits.data<T>(),
           entropy.targets.data<std::int64_t>(),
           entropy.log_sum_exp.data<A>(),
           entropy.scale.data<A>(),
           static_cast<A>(entropy.on_target),
           static_cast<A>(entropy.off_target));
  });
}

}  // namespace longspan
