// Losses of rows from their statistics over all ranks.
#include "framework/kernels/cross_entropy.h"

#include <cmath>

#include "framework/kernels/element.h"
#include "framework/kernels/shared/backend.h"

namespace longspan {
namespace {

template <typename A>
struct RescaleSum {
  const A* local_maximum;
  const A* maximum;
  A* sum;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t row) const {
    if (sum[row] != 0) sum[row] *= std::exp(local_maximum[row] - maximum[row]);
  }
};

template <typename A>
struct RowLoss {
  const std::int64_t* targets;
  const A* maximum;
  const A* sum;
  const A* target;
  const A* total;  // or nullptr
  double mass, on_target, off_target;
  A* log_sum_exp;
  A* losses;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t row) const {
    const double log_sum =
        std::log(static_cast<double>(sum[row])) + static_cast<double>(maximum[row]);
    double loss = mass * log_sum - on_target * static_cast<double>(target[row]);
    if (total != nullptr) loss -= off_target * static_cast<double>(total[row]);
    log_sum_exp[row] = static_cast<A>(log_sum);
    losses[row] = targets[row] < 0 ? A{0} : static_cast<A>(loss);
  }
};

}  // namespace

// By rows, which are not vectorized: vectorized logarithms differ in the last bit.

void rescale_sums(Backend backend,
                  const Tensor& local_maximum,
                  const Tensor& maximum,
                  const Tensor& sum) {
  require_same_shape("rescale_sums", local_maximum, maximum);
  require_same_shape("rescale_sums", maximum, sum);
  with_accumulator_type(sum.dtype(), [&]<typename A>(TypeTag<A>) {
    parallel_rows(backend,
                  sum.elements(),
                  1,
                  RescaleSum<A>{local_maximum.data<A>(), maximum.data<A>(), sum.data<A>()});
  });
}

void cross_entropy_losses(Backend backend, const CrossEntropyLosses& rows) {
  check(rows);
  with_accumulator_type(rows.sum.dtype(), [&]<typename A>(TypeTag<A>) {
    parallel_rows(backend,
                  rows.targets.elements(),
                  1,
                  RowLoss<A>{rows.targets.data<std::int64_t>(),
                             rows.maximum.data<A>(),
                             rows.sum.data<A>(),
                             rows.target.data<A>(),
                             rows.total.defined() ? rows.total.data<A>() : nullptr,
                             rows.mass,
                             rows.on_target,
                             rows.off_target,
                             rows.log_sum_exp.data<A>(),
                             rows.losses.data<A>()});
  });
}

}  // namespace longspan
