#include "framework/kernels/cross_entropy.h"

#include <limits>

#include "framework/kernels/cpu/loops.h"
#include "framework/kernels/vector_math.h"

namespace longspan {
namespace {

template <typename T, typename A>
A maximum_of(const T* logits, std::int64_t count) {
  A maximum = -std::numeric_limits<A>::infinity();
#pragma omp simd reduction(max : maximum)
  for (std::int64_t v = 0; v < count; ++v) {
    const A logit = static_cast<A>(logits[v]);
    maximum = logit > maximum ? logit : maximum;
  }
  return maximum;
}

template <typename T, typename A>
A sum_of_exponentials(const T* logits, std::int64_t count, A shift) {
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t v = 0; v < count; ++v) sum += fast_exp(static_cast<A>(logits[v]) - shift);
  return sum;
}

template <typename T, typename A>
A sum_of(const T* logits, std::int64_t count) {
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t v = 0; v < count; ++v) sum += static_cast<A>(logits[v]);
  return sum;
}

template <typename T>
void statistics(const CrossEntropyStatistics& entropy) {
  using A = Accumulator<T>;
  const T* logits = entropy.logits.data<T>();
  const std::int64_t* targets = entropy.targets.data<std::int64_t>();
  A* maxima = entropy.maximum.data<A>();
  A* sums = entropy.sum.data<A>();
  A* target_logits = entropy.target.data<A>();
  A* totals = entropy.total.defined() ? entropy.total.data<A>() : nullptr;
  const std::int64_t rows = entropy.logits.shape().rows(), width = entropy.logits.shape().width();
  const std::int64_t valid = entropy.valid_width;
  const std::int64_t vocabulary_begin = entropy.vocabulary_begin;
  for_rows(rows, valid, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* row = logits + r * width;
      const A maximum = maximum_of<T, A>(row, valid);
      maxima[r] = maximum;
      // The sum of a row of -inf is 0; any NaN makes it NaN.
      const bool none = maximum == -std::numeric_limits<A>::infinity();
      sums[r] = sum_of_exponentials<T, A>(row, valid, none ? A{0} : maximum);
      const std::int64_t local = targets[r] - vocabulary_begin;
      const bool here = targets[r] >= 0 && local >= 0 && local < valid;
      target_logits[r] = here ? static_cast<A>(row[local]) : A{0};
      if (totals != nullptr) totals[r] = sum_of<T, A>(row, valid);
    }
  });
}

template <typename T, typename A>
void gradient_row(T* row, std::int64_t count, A log_sum_exp, A scale, A off_target) {
#pragma omp simd
  for (std::int64_t v = 0; v < count; ++v)
    put(row[v], scale * (fast_exp(static_cast<A>(row[v]) - log_sum_exp) - off_target));
}

template <typename T>
void gradient(const CrossEntropyGradient& entropy) {
  using A = Accumulator<T>;
  T* logits = entropy.logits.data<T>();
  const std::int64_t* targets = entropy.targets.data<std::int64_t>();
  const A *log_sums = entropy.log_sum_exp.data<A>(), *scales = entropy.scale.data<A>();
  const A off_target = static_cast<A>(entropy.off_target);
  const A on_and_off = static_cast<A>(entropy.on_target + entropy.off_target);
  const std::int64_t rows = entropy.logits.shape().rows(), width = entropy.logits.shape().width();
  const std::int64_t valid = entropy.valid_width;
  const std::int64_t vocabulary_begin = entropy.vocabulary_begin;
  for_rows(rows, width, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      T* row = logits + r * width;
      if (targets[r] < 0) {
        std::fill(row, row + width, T(A{0}));
        continue;
      }
      const std::int64_t local = targets[r] - vocabulary_begin;
      const bool here = local >= 0 && local < valid;
      const A logit = here ? static_cast<A>(row[local]) : A{0};
      gradient_row(row, valid, log_sums[r], scales[r], off_target);
      // Rounded once, from the logit: softmax - on_target would cancel.
      if (here) row[local] = T(scales[r] * (fast_exp(logit - log_sums[r]) - on_and_off));
      std::fill(row + valid, row + width, T(A{0}));
    }
  });
}

}  // namespace

void cross_entropy_statistics(Cpu, const CrossEntropyStatistics& entropy) {
  check(entropy);
  with_floating_type(entropy.logits.dtype(),
                     [&](auto tag) { statistics<typename decltype(tag)::type>(entropy); });
}

void cross_entropy_backward(Cpu, const CrossEntropyGradient& entropy) {
  check(entropy);
  with_floating_type(entropy.logits.dtype(),
                     [&](auto tag) { gradient<typename decltype(tag)::type>(entropy); });
}

}  // namespace longspan
