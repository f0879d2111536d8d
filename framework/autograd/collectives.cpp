#include "framework/autograd/collectives.h"

#include <cmath>

#include "framework/kernels/cross_entropy.h"

namespace longspan {
namespace {

// What each rank knows of its part of the rows, reduced to what all agree on.
struct RowLosses {
  Tensor losses;
  Tensor log_sum_exp;
};

double off_target_of(const CrossEntropyOptions& options) {
  if (options.smoothing == 0) return 0;
  const auto classes = static_cast<double>(options.vocabulary);
  return options.smoothing / (options.kind == Smoothing::wrong_classes ? classes - 1 : classes);
}

double on_target_of(const CrossEntropyOptions& options) {
  // The weight of the target beyond what every class gets.
  return options.kind == Smoothing::wrong_classes ? 1 - options.smoothing - off_target_of(options)
                                                  : 1 - options.smoothing;
}

// sum = sum_v exp(l_v - local maximum) becomes relative to the maximum over all ranks.
template <typename T>
void rescale_sums(const Tensor& local_maximum, const Tensor& maximum, const Tensor& sum) {
  const auto local = local_maximum.span<T>();
  const auto global = maximum.span<T>();
  const auto sums = sum.span<T>();
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (sums[i] != 0) sums[i] *= std::exp(local[i] - global[i]);
}

template <typename T>
void finish_rows(const Tensor& targets,
                 const Tensor& maximum,
                 const Tensor& statistics,
                 const CrossEntropyOptions& options,
                 const RowLosses& rows) {
  const std::size_t count = static_cast<std::size_t>(targets.elements());
  const auto ids = targets.span<std::int64_t>();
  const auto maxima = maximum.span<T>();
  const T* const sums = statistics.data<T>();
  const T* const target_logits = sums + count;
  const T* const totals = options.smoothing != 0 ? target_logits + count : nullptr;
  const double on_target = on_target_of(options);
  const double off_target = off_target_of(options);
  const double mass = on_target + off_target * static_cast<double>(options.vocabulary);
  for (std::size_t i = 0; i < count; ++i) {
    const double log_sum_exp =
        std::log(static_cast<double>(sums[i])) + static_cast<double>(maxima[i]);
    double loss = mass * log_sum_exp - on_target * static_cast<double>(target_logits[i]);
    if (totals != nullptr) loss -= off_target * static_cast<double>(totals[i]);
    rows.log_sum_exp.data<T>()[i] = static_cast<T>(log_sum_exp);
    rows.losses.data<T>()[i] = ids[i] < 0 ? T(0) : static_cast<T>(loss);
  }
}

RowLosses reduce_rows(const Tensor& logits,
                      const Tensor& targets,
                      const CrossEntropyOptions& options,
                      const Communicator& communicator) {
  const std::int64_t rows = targets.elements();
  const DType dtype = accumulator_of(logits.dtype());
  const auto vector = [&](std::int64_t parts) {
    return Tensor::empty({parts, rows}, dtype, logits.device());
  };
  const Tensor local_maximum = vector(1);
  const Tensor statistics = vector(options.smoothing != 0 ? 3 : 2);
  on(logits.device(), [&](auto backend) {
    cross_entropy_statistics(
        backend,
        {.logits = logits,
         .targets = targets,
         .vocabulary_begin = options.vocabulary_begin,
         .valid_width = logits.shape()[1],
         .maximum = local_maximum.reshape({rows}),
         .sum = statistics.slice(0, 1).reshape({rows}),
         .target = statistics.slice(1, 2).reshape({rows}),
         .total = options.smoothing != 0 ? statistics.slice(2, 3).reshape({rows}) : Tensor()});
  });
  Tensor maximum = local_maximum;
  const RowLosses result = {Tensor::empty({rows}, dtype, logits.device()),
                            Tensor::empty({rows}, dtype, logits.device())};
  with_floating_type(dtype, [&]<typename T>(TypeTag<T>) {
    if constexpr (std::is_floating_point_v<T>) {
      if (communicator.size() > 1) {
        maximum = local_maximum.clone();
        communicator.all_reduce(maximum, Reduction::maximum);
        on(logits.device(),
           [&](Cpu) { rescale_sums<T>(local_maximum, maximum, statistics.slice(0, 1)); });
        communicator.all_reduce(statistics, Reduction::sum);
      }
      on(logits.device(),
         [&](Cpu) { finish_rows<T>(targets, maximum, statistics, options, result); });
    }
  });
  return result;
}

}  // namespace

Variable enter_split(const Variable& x, const Communicator& communicator) {
  if (communicator.size() == 1) return x;
  return record(x.value(), {x}, [communicator](Gradients& gradients) {
    const Tensor dx = gradients.take_output();
    communicator.all_reduce(dx, Reduction::sum);
    gradients.give(0, dx);
  });
}

Variable leave_split(Variable&& x, const Communicator& communicator) {
  if (communicator.size() == 1) return std::move(x);
  const Variable input = std::move(x);
  // The variable itself is one holder of its value.
  Tensor y = input.value();
  if (!y.held_by(2)) y = y.clone();
  communicator.all_reduce(y, Reduction::sum);
  return record(
      std::move(y), {input}, [](Gradients& gradients) { gradients.give(0, gradients.output()); });
}

Variable cross_entropy(Variable&& logits,
                       const Tensor& targets,
                       const CrossEntropyOptions& options,
                       const Communicator& communicator) {
  const Variable input = std::move(logits);
  // The variable itself is one holder of its value.
  const Tensor own = input.value().held_by(1) ? input.value() : input.value().clone();
  const Tensor values = own.reshape({input.shape().rows(), input.shape().width()});
  const Tensor ids = targets.reshape({targets.elements()});
  const RowLosses rows = reduce_rows(values, ids, options, communicator);
  return record(rows.losses,
                {input},
                [values, ids, options, log_sum_exp = rows.log_sum_exp](Gradients& gradients) {
                  on(values.device(), [&](auto backend) {
                    cross_entropy_backward(backend,
                                           {.logits = values,
                                            .targets = ids,
                                            .vocabulary_begin = options.vocabulary_begin,
                                            .valid_width = values.shape()[1],
                                            .log_sum_exp = log_sum_exp,
                                            .scale = gradients.output(),
                                            .on_target = on_target_of(options),
                                            .off_target = off_target_of(options)});
                  });
                  gradients.give(0, values);
                });
}

}  // namespace longspan
