#include "framework/kernels/crf.h"

#include <cmath>

#include "framework/kernels/cpu/loops.h"
#include "framework/kernels/shared/crf.h"
#include "framework/kernels/vector_math.h"

namespace longspan {
namespace {

template <typename A>
constexpr A least = -std::numeric_limits<A>::infinity();

template <typename A>
A log_sum_exp(const A* x, std::int64_t count) {
  A maximum = least<A>;
#pragma omp simd reduction(max : maximum)
  for (std::int64_t c = 0; c < count; ++c) maximum = x[c] > maximum ? x[c] : maximum;
  const A shift = origin(maximum);
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < count; ++c) sum += fast_exp(x[c] - shift);
  return std::log(sum) + shift;
}

// arrival[c] = log sum over y of exp(before[y] + transitions[y, c]); `shifts` is scratch.
template <typename A>
void arrive(
    std::int64_t tags, const A* before, const A* transitions, A* shifts, A* __restrict arrival) {
  std::fill_n(shifts, tags, least<A>);
  std::fill_n(arrival, tags, A{0});
  for (std::int64_t y = 0; y < tags; ++y) {
    const A from = before[y];
    const A* const row = transitions + y * tags;
#pragma omp simd
    for (std::int64_t c = 0; c < tags; ++c)
      shifts[c] = from + row[c] > shifts[c] ? from + row[c] : shifts[c];
  }
#pragma omp simd
  for (std::int64_t c = 0; c < tags; ++c) shifts[c] = origin(shifts[c]);
  for (std::int64_t y = 0; y < tags; ++y) {
    const A from = before[y];
    const A* const row = transitions + y * tags;
#pragma omp simd
    for (std::int64_t c = 0; c < tags; ++c) arrival[c] += fast_exp(from + row[c] - shifts[c]);
  }
  for (std::int64_t c = 0; c < tags; ++c) arrival[c] = std::log(arrival[c]) + shifts[c];
}

// log p(y_i = y | emissions up to i), from the saved values of step i.
template <typename T, typename A>
void write_known(std::int64_t tags, const A* arrival, const T* emissions, A growth, A* known) {
  const A shift = origin(growth);
#pragma omp simd
  for (std::int64_t c = 0; c < tags; ++c) known[c] = arrival[c] + wide(emissions[c]) - shift;
}

template <typename T>
void row_losses(const ChainView<T>& chain,
                std::int64_t row,
                const CrfLosses& call,
                std::vector<Accumulator<T>>& scratch) {
  using A = Accumulator<T>;
  const std::int64_t length = chain.length(row), tags = chain.tags;
  const T* const emissions = chain.emissions + row * chain.time * tags;
  const std::int64_t* const gold = call.tags.data<std::int64_t>() + row * chain.time;
  A* const arrival = call.arrival.data<A>() + row * chain.time * tags;
  A* const growth = call.growth.data<A>() + row * (chain.time + 1);
  scratch.resize(2 * static_cast<std::size_t>(tags));
  A* const known = scratch.data();
  A* const shifts = known + tags;
  ChainLoss loss;
  for (std::int64_t i = 0; i < length; ++i) {
    A* const here = arrival + i * tags;
    if (i == 0)
      std::copy_n(chain.start, tags, here);
    else
      arrive(tags, known, chain.transitions, shifts, here);
    write_known(tags, here, emissions + i * tags, A{0}, known);
    growth[i] = log_sum_exp(known, tags);
    const A shift = origin(growth[i]);
#pragma omp simd
    for (std::int64_t c = 0; c < tags; ++c) known[c] -= shift;
    loss.add(growth[i], score_of_step(chain, emissions, gold, i, length));
  }
  if (length > 0) {
#pragma omp simd
    for (std::int64_t c = 0; c < tags; ++c) known[c] += chain.end[c];
    growth[length] = log_sum_exp(known, tags);
    loss.add(growth[length], score_of_step(chain, emissions, gold, length, length));
  }
  call.losses.data<A>()[row] = static_cast<A>(loss.value());
  call.log_partition.data<A>()[row] = static_cast<A>(loss.partition);
}

// Accumulators of the counts of some rows.
template <typename A>
struct ChainCounts {
  A *start, *transitions, *end;
};

// Computes probabilities[y] of step i - 1 and the pair counts from `after`, the probabilities of
// step i:
//   p(y, c) = after[c] p(y_(i-1) = y | y_i = c, emissions up to i - 1)
template <typename A>
void count_pairs(std::int64_t tags,
                 A scale,
                 const A* known,
                 const A* transitions,
                 const A* shifts,
                 const A* after,
                 A* __restrict counts,
                 A* probabilities) {
  A total = 0;
  for (std::int64_t y = 0; y < tags; ++y) {
    const A from = known[y];
    const A* const row = transitions + y * tags;
    A* __restrict const count = counts + y * tags;
    A sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t c = 0; c < tags; ++c) {
      const A pair = after[c] * fast_exp(from + row[c] - shifts[c]);
      sum += pair;
      count[c] += scale * pair;
    }
    probabilities[y] = sum;
    total += sum;
  }
  const A factor = factor_to_one(total);
  for (std::int64_t y = 0; y < tags; ++y) probabilities[y] *= factor;
}

template <typename T>
void row_gradient(const ChainView<T>& chain,
                  std::int64_t row,
                  const CrfGradient& call,
                  const ChainCounts<Accumulator<T>>& counts,
                  std::vector<Accumulator<T>>& scratch) {
  using A = Accumulator<T>;
  const std::int64_t length = chain.length(row), tags = chain.tags;
  const T* const emissions = chain.emissions + row * chain.time * tags;
  const std::int64_t* const gold = call.tags.data<std::int64_t>() + row * chain.time;
  const A* const arrival = call.arrival.data<A>() + row * chain.time * tags;
  const A* const growth = call.growth.data<A>() + row * (chain.time + 1);
  const A scale = call.dlosses.data<A>()[row];
  T* const demissions = call.demissions.data<T>() + row * chain.time * tags;
  std::fill(demissions + length * tags, demissions + chain.time * tags, T(A{0}));
  if (length == 0) return;
  scratch.resize(4 * static_cast<std::size_t>(tags));
  A *known = scratch.data(), *shifts = known + tags, *here = shifts + tags, *before = here + tags;
  const auto know = [&](std::int64_t i) {
    write_known(tags, arrival + i * tags, emissions + i * tags, growth[i], known);
  };
  know(length - 1);
  for (std::int64_t c = 0; c < tags; ++c) {
    here[c] = fast_exp(known[c] + chain.end[c] - origin(growth[length]));
    counts.end[c] += scale * (here[c] - A(c == gold[length - 1]));
  }
  for (std::int64_t i = length - 1; i >= 0; --i) {
    T* const to = demissions + i * tags;
    for (std::int64_t c = 0; c < tags; ++c) put(to[c], scale * (here[c] - A(c == gold[i])));
    if (i == 0) break;
    for (std::int64_t c = 0; c < tags; ++c) shifts[c] = origin(arrival[i * tags + c]);
    know(i - 1);
    count_pairs(tags, scale, known, chain.transitions, shifts, here, counts.transitions, before);
    if (chain.has(gold[i - 1]) && chain.has(gold[i]))
      counts.transitions[gold[i - 1] * tags + gold[i]] -= scale;
    std::swap(here, before);
  }
  for (std::int64_t c = 0; c < tags; ++c) counts.start[c] += scale * (here[c] - A(c == gold[0]));
}

template <typename T>
void row_path(const ChainView<T>& chain,
              std::int64_t row,
              const CrfViterbi& call,
              std::vector<Accumulator<T>>& scratch,
              std::vector<std::int32_t>& pointers) {
  using A = Accumulator<T>;
  const std::int64_t length = chain.length(row), tags = chain.tags;
  const T* const emissions = chain.emissions + row * chain.time * tags;
  std::int64_t* const path = call.tags.data<std::int64_t>() + row * chain.time;
  std::fill(path + length, path + chain.time, -1);
  call.scores.data<A>()[row] = 0;
  if (length == 0) return;
  scratch.resize(2 * static_cast<std::size_t>(tags));
  pointers.resize(static_cast<std::size_t>(length * tags));
  A *best = scratch.data(), *next = best + tags;
  double score = 0;
  std::copy_n(chain.start, tags, best);
  for (std::int64_t i = 0; i < length; ++i) {
    if (i > 0) {
      std::int32_t* const pointer = pointers.data() + i * tags;
      std::fill_n(pointer, tags, 0);
      std::fill_n(next, tags, least<A>);
      for (std::int64_t y = 0; y < tags; ++y) {
        const A from = best[y];
        const A* const weights = chain.transitions + y * tags;
#pragma omp simd
        for (std::int64_t c = 0; c < tags; ++c) {
          const bool better = from + weights[c] > next[c];
          next[c] = better ? from + weights[c] : next[c];
          pointer[c] = better ? static_cast<std::int32_t>(y) : pointer[c];
        }
      }
      std::swap(best, next);
    }
    // Relative to the best score, so that scores do not grow with time and lose precision.
    write_known(tags, best, emissions + i * tags, A{0}, best);
    const A shift = origin(*std::max_element(best, best + tags));
    for (std::int64_t c = 0; c < tags; ++c) best[c] -= shift;
    score += shift;
  }
  for (std::int64_t c = 0; c < tags; ++c) best[c] += chain.end[c];
  const std::int64_t last = std::max_element(best, best + tags) - best;
  call.scores.data<A>()[row] = static_cast<A>(score + static_cast<double>(best[last]));
  path[length - 1] = last;
  for (std::int64_t i = length - 1; i > 0; --i)
    path[i - 1] = pointers[static_cast<std::size_t>(i * tags + path[i])];
}

}  // namespace

void crf_losses(Cpu, const CrfLosses& call) {
  check(call);
  with_floating_type(call.chain.emissions.dtype(), [&]<typename T>(TypeTag<T>) {
    const ChainView<T> chain(call.chain);
    for_rows(chain.rows,
             chain.time * chain.tags * chain.tags,
             [&](std::int64_t begin, std::int64_t end) {
               std::vector<Accumulator<T>> scratch;
               for (std::int64_t row = begin; row < end; ++row)
                 row_losses(chain, row, call, scratch);
             });
  });
}

void crf_backward(Cpu, const CrfGradient& call) {
  check(call);
  with_floating_type(call.chain.emissions.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const ChainView<T> chain(call.chain);
    // The number of blocks of rows does not depend on the number of threads. It is limited by the
    // memory of each block's pair counts.
    constexpr std::int64_t max_blocks = 32, max_pairs = 1 << 22;
    const std::int64_t wanted =
        std::clamp(max_pairs / (chain.tags * chain.tags), std::int64_t{1}, max_blocks);
    const std::int64_t in_block = (chain.rows + wanted - 1) / wanted;
    if (in_block == 0) return;
    const std::int64_t blocks = (chain.rows + in_block - 1) / in_block, tags = chain.tags;
    const auto partial = [&](std::int64_t width) {
      return Tensor::zeros(
          {blocks, width}, DTypeOf<A>::value, call.chain.emissions.device(), MemoryTag::workspace);
    };
    const Tensor start = partial(tags), transitions = partial(tags * tags), end = partial(tags);
    for_rows(
        blocks, in_block * chain.time * tags * tags, [&](std::int64_t first, std::int64_t last) {
          std::vector<A> scratch;
          for (std::int64_t block = first; block < last; ++block) {
            const ChainCounts<A> counts = {start.data<A>() + block * tags,
                                           transitions.data<A>() + block * tags * tags,
                                           end.data<A>() + block * tags};
            const std::int64_t after = std::min((block + 1) * in_block, chain.rows);
            for (std::int64_t row = block * in_block; row < after; ++row)
              row_gradient(chain, row, call, counts, scratch);
          }
        });
    add_rows_in_order(start.data<A>(), blocks, tags, call.dstart.data<A>());
    add_rows_in_order(transitions.data<A>(), blocks, tags * tags, call.dtransitions.data<A>());
    add_rows_in_order(end.data<A>(), blocks, tags, call.dend.data<A>());
  });
}

void crf_viterbi(Cpu, const CrfViterbi& call) {
  check(call);
  with_floating_type(call.chain.emissions.dtype(), [&]<typename T>(TypeTag<T>) {
    const ChainView<T> chain(call.chain);
    for_rows(chain.rows,
             chain.time * chain.tags * chain.tags,
             [&](std::int64_t begin, std::int64_t end) {
               std::vector<Accumulator<T>> scratch;
               std::vector<std::int32_t> pointers;
               for (std::int64_t row = begin; row < end; ++row)
                 row_path(chain, row, call, scratch, pointers);
             });
  });
}

}  // namespace longspan
