#include <limits>

#include "framework/kernels/crf.h"
#include "framework/kernels/cuda/block_reduce.h"
#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/shared/crf.h"
#include "framework/kernels/vector_math.h"

// A block processes a row step by step. State passes between steps through global memory, written
// by the same block before a barrier, so that the number of tags is unlimited.

namespace longspan {
namespace {

template <typename A>
inline constexpr A least = -std::numeric_limits<A>::infinity();

// Calls f(c) for the tags of this thread, which are the same in every call.
template <typename F>
__device__ void each_tag(std::int64_t tags, const F& f) {
  for (std::int64_t c = threadIdx.x; c < tags; c += blockDim.x) f(c);
}

// Returns the log sum over all tags c of exp(value(c)), in every thread; calls `value` only for
// this thread's tags.
template <typename A, typename F>
__device__ A log_sum_exp_over_block(std::int64_t tags, A* scratch, const F& value) {
  A largest = least<A>;
  each_tag(tags, [&](std::int64_t c) { largest = Max()(value(c), largest); });
  const A shift = origin(block_reduce(largest, scratch, Max()));
  A sum = 0;
  each_tag(tags, [&](std::int64_t c) { sum += fast_exp(value(c) - shift); });
  return std::log(block_reduce(sum, scratch, Plus())) + shift;
}

// Saved values of a row for the backward pass.
template <typename T>
struct KeptRow {
  using A = Accumulator<T>;
  std::int64_t tags;
  const T* emissions;
  const A* arrival;

  // log p(y_i = c | emissions up to i).
  __device__ A known(std::int64_t i, std::int64_t c, A growth) const {
    return arrival[i * tags + c] + wide(emissions[i * tags + c]) - origin(growth);
  }
};

template <typename T>
__global__ void chain_losses(ChainView<T> chain,
                             const std::int64_t* tags,
                             Accumulator<T>* arrivals,
                             Accumulator<T>* growths,
                             Accumulator<T>* losses,
                             Accumulator<T>* log_partitions) {
  using A = Accumulator<T>;
  A* const scratch = shared_memory<A>();
  const std::int64_t row = blockIdx.x, length = chain.length(row);
  const T* const emissions = chain.emissions + row * chain.time * chain.tags;
  const std::int64_t* const gold = tags + row * chain.time;
  A* const arrival = arrivals + row * chain.time * chain.tags;
  A* const growth = growths + row * (chain.time + 1);
  const KeptRow<T> kept = {chain.tags, emissions, arrival};
  ChainLoss loss;
  const auto add = [&](std::int64_t i, A grown) {
    if (threadIdx.x > 0) return;
    growth[i] = grown;
    loss.add(grown, score_of_step(chain, emissions, gold, i, length));
  };
  A grown = 0;
  for (std::int64_t i = 0; i < length; ++i) {
    each_tag(chain.tags, [&](std::int64_t c) {
      A* const here = arrival + i * chain.tags + c;
      if (i == 0) {
        *here = chain.start[c];
        return;
      }
      A largest = least<A>, sum = 0;
      for (std::int64_t y = 0; y < chain.tags; ++y)
        largest =
            Max()(kept.known(i - 1, y, grown) + chain.transitions[y * chain.tags + c], largest);
      const A shift = origin(largest);
      for (std::int64_t y = 0; y < chain.tags; ++y)
        sum +=
            fast_exp(kept.known(i - 1, y, grown) + chain.transitions[y * chain.tags + c] - shift);
      *here = std::log(sum) + shift;
    });
    grown = log_sum_exp_over_block(
        chain.tags, scratch, [&](std::int64_t c) { return kept.known(i, c, A{0}); });
    add(i, grown);
  }
  if (length > 0)
    add(length, log_sum_exp_over_block(chain.tags, scratch, [&](std::int64_t c) {
          return kept.known(length - 1, c, grown) + chain.end[c];
        }));
  if (threadIdx.x > 0) return;
  losses[row] = static_cast<A>(loss.value());
  log_partitions[row] = static_cast<A>(loss.partition);
}

// Arguments of the backward pass. Blocks accumulate the counts of some rows, which are summed
// afterwards.
template <typename T>
struct ChainBackward {
  using A = Accumulator<T>;
  std::int64_t rows_in_block;
  const std::int64_t* tags;
  const A *arrivals, *growths, *dlosses;
  T* demissions;
  A *start, *transitions, *end;  // [blocks, tags], [blocks, tags * tags], [blocks, tags]
  A* probabilities;              // [blocks, 2, tags], scratch
};

// Computes before[y], the probabilities of step i - 1, and the pair counts from `here`, those of
// step i. A warp has one previous tag, its lanes the current tags.
template <typename T, typename A>
__device__ void count_pairs(const ChainView<T>& chain,
                            const KeptRow<T>& kept,
                            const std::int64_t* gold,
                            std::int64_t i,
                            A growth_before,
                            A scale,
                            const A* here,
                            A* before,
                            A* counts) {
  const std::int64_t lane = threadIdx.x % warp_size, warps = blockDim.x / warp_size;
  for (std::int64_t y = threadIdx.x / warp_size; y < chain.tags; y += warps) {
    const A from = kept.known(i - 1, y, growth_before);
    A sum = 0;
    for (std::int64_t c = lane; c < chain.tags; c += warp_size) {
      const std::int64_t at = y * chain.tags + c;
      const A shift = origin(kept.arrival[i * chain.tags + c]);
      const A pair = here[c] * fast_exp(from + chain.transitions[at] - shift);
      sum += pair;
      counts[at] += scale * (pair - A(y == gold[i - 1] && c == gold[i]));
    }
    sum = warp_reduce(sum, Plus());
    if (lane == 0) before[y] = sum;
  }
}

template <typename T>
__device__ void row_gradient(const ChainView<T>& chain,
                             const ChainBackward<T>& call,
                             std::int64_t row) {
  using A = Accumulator<T>;
  const std::int64_t length = chain.length(row), tags = chain.tags;
  const std::int64_t* const gold = call.tags + row * chain.time;
  const A* const growth = call.growths + row * (chain.time + 1);
  const A scale = call.dlosses[row];
  T* const demissions = call.demissions + row * chain.time * tags;
  const KeptRow<T> kept = {
      tags, chain.emissions + row * chain.time * tags, call.arrivals + row * chain.time * tags};
  A* here = call.probabilities + blockIdx.x * 2 * tags;
  A* before = here + tags;
  A* const start = call.start + blockIdx.x * tags;
  A* const end = call.end + blockIdx.x * tags;
  for (std::int64_t i = length; i < chain.time; ++i)
    each_tag(tags, [&](std::int64_t c) { put(demissions[i * tags + c], A{0}); });
  if (length == 0) return;
  each_tag(tags, [&](std::int64_t c) {
    here[c] = fast_exp(kept.known(length - 1, c, growth[length - 1]) + chain.end[c] -
                       origin(growth[length]));
    end[c] += scale * (here[c] - A(c == gold[length - 1]));
  });
  for (std::int64_t i = length - 1; i >= 0; --i) {
    A sum = 0;
    each_tag(tags, [&](std::int64_t c) { sum += here[c]; });
    const A factor = factor_to_one(block_reduce(sum, shared_memory<A>(), Plus()));
    each_tag(tags, [&](std::int64_t c) {
      here[c] *= factor;
      const A gradient = scale * (here[c] - A(c == gold[i]));
      put(demissions[i * tags + c], gradient);
      if (i == 0) start[c] += gradient;
    });
    __syncthreads();
    if (i > 0)
      count_pairs(chain,
                  kept,
                  gold,
                  i,
                  growth[i - 1],
                  scale,
                  here,
                  before,
                  call.transitions + blockIdx.x * tags * tags);
    __syncthreads();
    A* const other = here;
    here = before;
    before = other;
  }
}

template <typename T>
__global__ void chain_backward(ChainView<T> chain, ChainBackward<T> call) {
  const std::int64_t first = blockIdx.x * call.rows_in_block;
  for (std::int64_t row = first; row < first + call.rows_in_block && row < chain.rows; ++row)
    row_gradient(chain, call, row);
}

template <typename T>
struct ChainPath {
  using A = Accumulator<T>;
  std::int64_t* tags;
  A* scores;
  std::int32_t* pointers;  // [rows, time, tags], scratch: the best previous tag
  A* best;                 // [rows, 2, tags], scratch
};

template <typename T>
__global__ void chain_path(ChainView<T> chain, ChainPath<T> call) {
  using A = Accumulator<T>;
  A* const scratch = shared_memory<A>();
  const std::int64_t row = blockIdx.x, length = chain.length(row), tags = chain.tags;
  const T* const emissions = chain.emissions + row * chain.time * tags;
  std::int64_t* const path = call.tags + row * chain.time;
  std::int32_t* const pointers = call.pointers + row * chain.time * tags;
  A* next = call.best + row * 2 * tags;
  A* best = next + tags;
  each_tag(chain.time - length, [&](std::int64_t i) { path[length + i] = -1; });
  if (threadIdx.x == 0) call.scores[row] = 0;
  if (length == 0) return;
  // Relative to the best score, so that scores do not grow with time and lose precision.
  A shift = 0;
  double score = 0;
  for (std::int64_t i = 0; i < length; ++i) {
    A largest = least<A>;
    each_tag(tags, [&](std::int64_t c) {
      A highest = least<A>;
      std::int32_t pointer = 0;
      if (i == 0) highest = chain.start[c];
      for (std::int64_t y = 0; i > 0 && y < tags; ++y) {
        const A candidate = best[y] - shift + chain.transitions[y * tags + c];
        if (!(candidate > highest)) continue;
        highest = candidate;
        pointer = static_cast<std::int32_t>(y);
      }
      pointers[i * tags + c] = pointer;
      next[c] = highest + wide(emissions[i * tags + c]);
      largest = Max()(next[c], largest);
    });
    shift = origin(block_reduce(largest, scratch, Max()));
    score += static_cast<double>(shift);
    A* const other = best;
    best = next;
    next = other;
  }
  if (threadIdx.x > 0) return;
  std::int64_t last = 0;
  A highest = best[0] - shift + chain.end[0];
  for (std::int64_t c = 1; c < tags; ++c) {
    const A candidate = best[c] - shift + chain.end[c];
    if (!(candidate > highest)) continue;
    highest = candidate;
    last = c;
  }
  call.scores[row] = static_cast<A>(score + static_cast<double>(highest));
  path[length - 1] = last;
  for (std::int64_t i = length - 1; i > 0; --i) path[i - 1] = pointers[i * tags + path[i]];
}

// One thread for each tag.
template <typename A>
Grid tag_grid(std::int64_t blocks, std::int64_t tags) {
  return row_grid<A>(blocks, 4 * tags);
}

}  // namespace

void crf_losses(Cuda cuda, const CrfLosses& call) {
  check(call);
  with_floating_type(call.chain.emissions.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const ChainView<T> chain(call.chain);
    launch(cuda,
           tag_grid<A>(chain.rows, chain.tags),
           chain_losses<T>,
           chain,
           call.tags.data<std::int64_t>(),
           call.arrival.data<A>(),
           call.growth.data<A>(),
           call.losses.data<A>(),
           call.log_partition.data<A>());
  });
}

void crf_backward(Cuda cuda, const CrfGradient& call) {
  check(call);
  with_floating_type(call.chain.emissions.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const ChainView<T> chain(call.chain);
    const std::int64_t tags = chain.tags;
    // Approximately the number of blocks resident on a large GPU, limited by the memory of each
    // block's pair counts.
    constexpr std::int64_t max_blocks = 1024, max_pairs = 1 << 22;
    const std::int64_t wanted = std::clamp(max_pairs / (tags * tags), std::int64_t{1}, max_blocks);
    const std::int64_t in_block = (chain.rows + wanted - 1) / wanted;
    if (in_block == 0) return;
    const std::int64_t blocks = (chain.rows + in_block - 1) / in_block;
    const Device& device = call.chain.emissions.device();
    const auto partial = [&](std::int64_t width) {
      return Tensor::zeros({blocks, width}, DTypeOf<A>::value, device, MemoryTag::workspace);
    };
    const Tensor start = partial(tags), transitions = partial(tags * tags), end = partial(tags);
    const Tensor probabilities = partial(2 * tags);
    launch(cuda,
           {.blocks = blocks,
            .threads = warp_size * static_cast<int>(std::min<std::int64_t>(tags, 8)),
            .shared_bytes = row_scratch_bytes<A>},
           chain_backward<T>,
           chain,
           ChainBackward<T>{in_block,
                            call.tags.data<std::int64_t>(),
                            call.arrival.data<A>(),
                            call.growth.data<A>(),
                            call.dlosses.data<A>(),
                            call.demissions.data<T>(),
                            start.data<A>(),
                            transitions.data<A>(),
                            end.data<A>(),
                            probabilities.data<A>()});
    add_column_sums(cuda, start, call.dstart);
    add_column_sums(cuda, transitions, call.dtransitions);
    add_column_sums(cuda, end, call.dend);
  });
}

void crf_viterbi(Cuda cuda, const CrfViterbi& call) {
  check(call);
  const Shape& shape = call.chain.emissions.shape();
  const Device& device = call.chain.emissions.device();
  const Tensor pointers = Tensor::empty(shape, DType::i32, device, MemoryTag::workspace);
  const Tensor best =
      Tensor::empty({shape[0], 2, shape[2]}, call.scores.dtype(), device, MemoryTag::workspace);
  with_floating_type(call.chain.emissions.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const ChainView<T> chain(call.chain);
    launch(cuda,
           tag_grid<A>(chain.rows, chain.tags),
           chain_path<T>,
           chain,
           ChainPath<T>{call.tags.data<std::int64_t>(),
                        call.scores.data<A>(),
                        pointers.data<std::int32_t>(),
                        best.data<A>()});
  });
}

}  // namespace longspan
