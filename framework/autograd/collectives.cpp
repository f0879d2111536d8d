#include "framework/autograd/collectives.h"

#include "framework/kernels/cross_entropy.h"

namespace longspan {
namespace {

// Row statistics of each rank's shard, reduced over the ranks.
struct RowLosses {
  Tensor losses;
  Tensor log_sum_exp;
};

double off_target_of(const CrossEntropyOptions& options) {
  if (options.smoothing == 0) return 0;
  const auto classes = static_cast<double>(options.vocabulary);
  return options.smoothing /
         (options.kind == LabelSmoothingStyle::wrong_classes ? classes - 1 : classes);
}

double on_target_of(const CrossEntropyOptions& options) {
  // Weight of the target in excess of every class's share.
  return options.kind == LabelSmoothingStyle::wrong_classes
             ? 1 - options.smoothing - off_target_of(options)
             : 1 - options.smoothing;
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
         .valid_width = options.classes.value_or(logits.shape()[1]),
         .maximum = local_maximum.reshape({rows}),
         .sum = statistics.slice(0, 1).reshape({rows}),
         .target = statistics.slice(1, 2).reshape({rows}),
         .total = options.smoothing != 0 ? statistics.slice(2, 3).reshape({rows}) : Tensor()});
  });
  Tensor maximum = local_maximum;
  if (communicator.size() > 1) {
    maximum = local_maximum.clone();
    communicator.all_reduce(maximum, Reduction::maximum);
    on(logits.device(), [&](auto backend) {
      rescale_sums(backend, local_maximum, maximum, statistics.slice(0, 1));
    });
    communicator.all_reduce(statistics, Reduction::sum);
  }
  const RowLosses result = {Tensor::empty({rows}, dtype, logits.device()),
                            Tensor::empty({rows}, dtype, logits.device())};
  const double on_target = on_target_of(options), off_target = off_target_of(options);
  on(logits.device(), [&](auto backend) {
    cross_entropy_losses(backend,
                         {.targets = targets,
                          .maximum = maximum,
                          .sum = statistics.slice(0, 1),
                          .target = statistics.slice(1, 2),
                          .total = options.smoothing != 0 ? statistics.slice(2, 3) : Tensor(),
                          .mass = on_target + off_target * static_cast<double>(options.vocabulary),
                          .on_target = on_target,
                          .off_target = off_target,
                          .log_sum_exp = result.log_sum_exp,
                          .losses = result.losses});
  });
  return result;
}

}  // namespace

Variable copy_to_tensor_parallel_region(const Variable& x, const Communicator& communicator) {
  if (communicator.size() == 1) return x;
  return record(x.value(), {x}, [communicator](BackwardContext& gradients) {
    const Tensor dx = gradients.release_output();
    communicator.all_reduce(dx, Reduction::sum);
    gradients.set(0, dx);
  });
}

Variable reduce_from_tensor_parallel_region(Variable&& x, const Communicator& communicator) {
  if (communicator.size() == 1) return std::move(x);
  const Variable input = std::move(x);
  // `input` itself is one owner of its value.
  Tensor y = input.value();
  if (!y.has_use_count(2)) y = y.clone();
  communicator.all_reduce(y, Reduction::sum);
  return record(std::move(y), {input}, [](BackwardContext& gradients) {
    gradients.set(0, gradients.output());
  });
}

Variable cross_entropy(Variable&& logits,
                       const Tensor& targets,
                       const CrossEntropyOptions& options,
                       const Communicator& communicator) {
  const Variable input = std::move(logits);
  // `input` itself is one owner of its value.
  const Tensor own = input.value().has_use_count(1) ? input.value() : input.value().clone();
  const Tensor values = own.reshape({input.shape().rows(), input.shape().width()});
  const Tensor ids = targets.reshape({targets.elements()});
  const RowLosses rows = reduce_rows(values, ids, options, communicator);
  return record(rows.losses,
                {input},
                [values, ids, options, log_sum_exp = rows.log_sum_exp](BackwardContext& gradients) {
                  on(values.device(), [&](auto backend) {
                    cross_entropy_backward(
                        backend,
                        {.logits = values,
                         .targets = ids,
                         .vocabulary_begin = options.vocabulary_begin,
                         .valid_width = options.classes.value_or(values.shape()[1]),
                         .log_sum_exp = log_sum_exp,
                         .scale = gradients.output(),
                         .on_target = on_target_of(options),
                         .off_target = off_target_of(options)});
                  });
                  gradients.set(0, values);
                });
}

}  // namespace longspan
