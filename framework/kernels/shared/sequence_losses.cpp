// Losses of whole output sequences.
#include "framework/kernels/sequence_losses.h"

#include <cmath>

#include "framework/kernels/element.h"
#include "framework/kernels/shared/backend.h"

namespace longspan {
namespace {

template <typename A>
struct WeightedRow {
  const A* x;
  const A* weight;
  A* y;
  std::int64_t width;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t r) const {
    A sum = 0;
    for (std::int64_t i = r * width; i < (r + 1) * width; ++i) sum += weight[i] * x[i];
    y[r] = sum;
  }
};

template <typename A>
struct WeightedRowBackward {
  const A* weight;
  const A* dy;
  A* dx;
  std::int64_t width;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t r) const {
    for (std::int64_t i = r * width; i < (r + 1) * width; ++i) dx[i] = dy[r] * weight[i];
  }
};

template <typename A>
struct ExpectedCostOfGroup {
  const A* l;
  const A* cost;
  const std::int64_t* present;
  A* y;
  A* slope;
  std::int64_t width;
  A alpha;

  // Subtracts the maximum, since a log-probability can be far below that of the smallest number.
  LONGSPAN_HOST_DEVICE void operator()(std::int64_t g) const {
    const std::int64_t begin = g * width, end = begin + width;
    std::int64_t best = -1;
    for (std::int64_t i = begin; i < end; ++i)
      if (present[i] != 0 && (best < 0 || alpha * l[i] > alpha * l[best])) best = i;
    A sum = 0, expected = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      slope[i] = present[i] != 0 ? std::exp(alpha * (l[i] - l[best])) : A{0};
      sum += slope[i];
      if (present[i] != 0) expected += slope[i] * cost[i];
    }
    y[g] = best < 0 ? A{0} : expected / sum;
    for (std::int64_t i = begin; i < end; ++i)
      if (present[i] != 0) slope[i] = alpha * (slope[i] / sum) * (cost[i] - y[g]);
  }
};

// Cost of an exponential in elements of a simple loop, approximately, used to choose the number of
// threads.
constexpr std::int64_t cost_of_candidate = 16;

}  // namespace

void weighted_row_sums(Backend backend, const WeightedRowSums& sums) {
  check(sums);
  with_accumulator_type(sums.x.dtype(), [&]<typename A>(TypeTag<A>) {
    const std::int64_t width = sums.x.shape()[1];
    parallel_rows(backend,
                  sums.x.shape()[0],
                  width,
                  WeightedRow<A>{sums.x.data<A>(), sums.weight.data<A>(), sums.y.data<A>(), width});
  });
}

void weighted_row_sums_backward(Backend backend, const WeightedRowSumsGradient& gradient) {
  check(gradient);
  with_accumulator_type(gradient.weight.dtype(), [&]<typename A>(TypeTag<A>) {
    const std::int64_t width = gradient.weight.shape()[1];
    parallel_rows(
        backend,
        gradient.weight.shape()[0],
        width,
        WeightedRowBackward<A>{
            gradient.weight.data<A>(), gradient.dy.data<A>(), gradient.dx.data<A>(), width});
  });
}

void expected_costs(Backend backend, const ExpectedCosts& costs) {
  check(costs);
  with_accumulator_type(costs.cost.dtype(), [&]<typename A>(TypeTag<A>) {
    const std::int64_t width = costs.cost.shape()[1];
    parallel_rows(backend,
                  costs.cost.shape()[0],
                  cost_of_candidate * width,
                  ExpectedCostOfGroup<A>{.l = costs.log_probability.data<A>(),
                                         .cost = costs.cost.data<A>(),
                                         .present = costs.present.data<std::int64_t>(),
                                         .y = costs.y.data<A>(),
                                         .slope = costs.slope.data<A>(),
                                         .width = width,
                                         .alpha = static_cast<A>(costs.alpha)});
  });
}

}  // namespace longspan
