// Losses of whole output sequences: weighted sums of token losses, and the expected cost of minimum
// risk training (Shen et al. 2016).
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// y[r] = sum_t weight[r, t] x[r, t]. x, weight: [rows, time]; y: [rows], overwritten. All have one
// dtype, f32 or f64.
struct WeightedRowSums {
  Tensor x;
  Tensor weight;
  Tensor y;
};
void weighted_row_sums(Cpu, const WeightedRowSums&);
void weighted_row_sums(Cuda, const WeightedRowSums&);

// dx[r, t] = dy[r] weight[r, t], the gradient of weighted_row_sums by x. Overwrites dx.
struct WeightedRowSumsGradient {
  Tensor weight;
  Tensor dy;
  Tensor dx;
};
void weighted_row_sums_backward(Cpu, const WeightedRowSumsGradient&);
void weighted_row_sums_backward(Cuda, const WeightedRowSumsGradient&);

// With l the log-probabilities of a group's candidates and Q = softmax(alpha l) over those that are
// present:
//   y[g] = sum_n Q[g, n] cost[g, n], and 0 for a group without candidates,
//   slope[g, n] = d y[g] / d l[g, n] = alpha Q[g, n] (cost[g, n] - y[g]), and 0 where absent.
// log_probability, cost, slope: [groups, candidates]; y: [groups]; one dtype, f32 or f64. present:
// [groups, candidates] i64, 0 where absent: l and cost are not read there. Overwrites y and slope.
struct ExpectedCosts {
  Tensor log_probability;
  Tensor cost;
  Tensor present;
  double alpha = 1;
  Tensor y;
  Tensor slope;
};
void expected_costs(Cpu, const ExpectedCosts&);
void expected_costs(Cuda, const ExpectedCosts&);

// Throws Failure if shapes or dtypes do not match the comments above.
void check(const WeightedRowSums&);
void check(const WeightedRowSumsGradient&);
void check(const ExpectedCosts&);

}  // namespace longspan
