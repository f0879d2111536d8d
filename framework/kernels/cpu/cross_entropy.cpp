#include "framework/kernels/cross_entropy.h"

#include <limits>

#include "framework/kernels/cpu/loops.h"
#include "framework/kernels/cpu/vector_math.h"

namespace longspan {
namespace {

struct Extent {
  std::int64_t rows;
  std::int64_t width;
};

// Checks what both kernels share; the vectors are [rows] in the accumulator dtype.
Extent require_logits(const char* kernel,
                      const Tensor& logits,
                      const Tensor& targets,
                      std::int64_t valid_width,
                      std::initializer_list<const Tensor*> vectors) {
  const Extent extent{logits.shape().rows(), logits.shape().width()};
  require(0 <= valid_width && valid_width <= extent.width,
          "{}: valid_width is {}, logits have shape {}",
          kernel,
          valid_width,
          logits.shape().to_string());
  require(targets.dtype() == DType::i64 && targets.elements() == extent.rows,
          "{}: targets are {} {}, wanted {} of i64",
          kernel,
          name_of(targets.dtype()),
          targets.shape().to_string(),
          extent.rows);
  for (const Tensor* vector : vectors)
    require(vector->elements() == extent.rows && vector->dtype() == accumulator_of(logits.dtype()),
            "{}: a statistic is {} {}, wanted {} of {}",
            kernel,
            name_of(vector->dtype()),
            vector->shape().to_string(),
            extent.rows,
            name_of(accumulator_of(logits.dtype())));
  return extent;
}

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
  for (std::int64_t v = 0; v < count; ++v) sum += exponential(static_cast<A>(logits[v]) - shift);
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
void statistics(const CrossEntropyStatistics& entropy, Extent extent) {
  using A = Accumulator<T>;
  const T* logits = entropy.logits.data<T>();
  const std::int64_t* targets = entropy.targets.data<std::int64_t>();
  A* maxima = entropy.maximum.data<A>();
  A* sums = entropy.sum.data<A>();
  A* target_logits = entropy.target.data<A>();
  A* totals = entropy.total.defined() ? entropy.total.data<A>() : nullptr;
  const std::int64_t width = extent.width, valid = entropy.valid_width;
  const std::int64_t vocabulary_begin = entropy.vocabulary_begin;
  for_rows(extent.rows, valid, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* row = logits + r * width;
      const A maximum = maximum_of<T, A>(row, valid);
      maxima[r] = maximum;
      // A row of -inf has the sum 0; a NaN anywhere makes the sum NaN.
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
    put(row[v], scale * (exponential(static_cast<A>(row[v]) - log_sum_exp) - off_target));
}

template <typename T>
void gradient(const CrossEntropyGradient& entropy, Extent extent) {
  using A = Accumulator<T>;
  T* logits = entropy.logits.data<T>();
  const std::int64_t* targets = entropy.targets.data<std::int64_t>();
  const A *log_sums = entropy.log_sum_exp.data<A>(), *scales = entropy.scale.data<A>();
  const A off_target = static_cast<A>(entropy.off_target);
  const A on_and_off = static_cast<A>(entropy.on_target + entropy.off_target);
  const std::int64_t width = extent.width, valid = entropy.valid_width;
  const std::int64_t vocabulary_begin = entropy.vocabulary_begin;
  for_rows(extent.rows, width, [=](std::int64_t begin, std::int64_t end) {
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
      // Rounded once, from the logit: softmax - on_target cancels.
      if (here) row[local] = T(scales[r] * (exponential(logit - log_sums[r]) - on_and_off));
      std::fill(row + valid, row + width, T(A{0}));
    }
  });
}

}  // namespace

void cross_entropy_statistics(Cpu, const CrossEntropyStatistics& entropy) {
  const Tensor& total = entropy.total.defined() ? entropy.total : entropy.sum;
  const Extent extent = require_logits("cross_entropy_statistics",
                                       entropy.logits,
                                       entropy.targets,
                                       entropy.valid_width,
                                       {&entropy.maximum, &entropy.sum, &entropy.target, &total});
  with_floating_type(entropy.logits.dtype(),
                     [&](auto tag) { statistics<typename decltype(tag)::type>(entropy, extent); });
}

void cross_entropy_backward(Cpu, const CrossEntropyGradient& entropy) {
  const Extent extent = require_logits("cross_entropy_backward",
                                       entropy.logits,
                                       entropy.targets,
                                       entropy.valid_width,
                                       {&entropy.log_sum_exp, &entropy.scale});
  with_floating_type(entropy.logits.dtype(),
                     [&](auto tag) { gradient<typename decltype(tag)::type>(entropy, extent); });
}

}  // namespace longspan
