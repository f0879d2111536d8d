#include "framework/kernels/sequence_losses.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan::kernel_sequence_losses_test {
namespace {

using namespace longspan::testing;

template <typename T>
void check_sums(double tolerance) {
  constexpr std::int64_t rows = 7, width = 9;
  const Values x = normal_values<double>(rows * width, 1);
  const Values weight = normal_values<double>(rows * width, 2);
  const Values upstream = normal_values<double>(rows, 3);
  const WeightedRowSums sums = {.x = tensor_of<T>(x, {rows, width}),
                                .weight = tensor_of<T>(weight, {rows, width}),
                                .y = tensor_of<T>(upstream, {rows})};
  weighted_row_sums(backend(), sums);
  const WeightedRowSumsGradient gradient = {
      .weight = sums.weight, .dy = tensor_of<T>(upstream, {rows}), .dx = sums.x.empty_like()};
  weighted_row_sums_backward(backend(), gradient);
  Values y(rows, 0.0), dx;
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i / width] += weight[i] * x[i];
    dx.push_back(weight[i] * upstream[i / width]);
  }
  expect_close(values_of(sums.y), y, tolerance);
  expect_close(values_of(gradient.dx), dx, tolerance);
}

TEST(SequenceLossKernels, SumWeightedRows) {
  check_sums<double>(1e-14);
  check_sums<float>(1e-5);
}

template <typename T>
void check_costs(double tolerance) {
  constexpr std::int64_t groups = 6, width = 4;
  constexpr double alpha = 0.7;
  const Values l = normal_values<double>(groups * width, 4, 3);
  const Values cost = normal_values<double>(groups * width, 5);
  std::vector<std::int64_t> present;
  for (std::int64_t i = 0; i < groups * width; ++i)
    present.push_back(i / width > i % width ? 1 : 0);
  const ExpectedCosts costs = {
      .log_probability = tensor_of<T>(l, {groups, width}),
      .cost = tensor_of<T>(cost, {groups, width}),
      .present = Tensor::from<std::int64_t>(present, {groups, width}, backend_device()),
      .alpha = alpha,
      .y = tensor_of<T>(Values(groups, 9.0), {groups}),
      .slope = tensor_of<T>(cost, {groups, width})};
  expected_costs(backend(), costs);
  Values y(groups, 0.0), slope(l.size(), 0.0);
  for (std::size_t g = 0; g < groups; ++g) {
    double all = 0;
    for (std::size_t i = g * width; i < (g + 1) * width; ++i)
      all += present[i] != 0 ? std::exp(alpha * l[i]) : 0;
    for (std::size_t i = g * width; i < (g + 1) * width; ++i)
      y[g] += present[i] != 0 ? std::exp(alpha * l[i]) / all * cost[i] : 0;
    for (std::size_t i = g * width; i < (g + 1) * width; ++i)
      slope[i] = present[i] != 0 ? alpha * std::exp(alpha * l[i]) / all * (cost[i] - y[g]) : 0;
  }
  expect_close(values_of(costs.y), y, tolerance);
  expect_close(values_of(costs.slope), slope, tolerance);
}

TEST(SequenceLossKernels, ExpectCostsOfPresentCandidates) {
  check_costs<double>(1e-13);
  check_costs<float>(1e-5);
}

TEST(SequenceLossKernels, RejectOtherShapes) {
  const Tensor x = tensor_of<double>(Values(6, 0.0), {2, 3});
  const Tensor y = tensor_of<double>(Values(3, 0.0), {3});
  EXPECT_THROW(weighted_row_sums(backend(), {.x = x, .weight = x, .y = y}), Failure);
}

}  // namespace
}  // namespace longspan::kernel_sequence_losses_test
