// Losses of whole output sequences.
#include <cmath>

#include "framework/autograd/losses.h"
#include "tests/support/gradient_check.h"

namespace longspan::sequence_losses_test {
namespace {

using namespace longspan::testing;

constexpr std::int64_t groups = 4, candidates = 5;

// Groups with all candidates, three, one and none.
CandidateCosts costs_of(std::uint64_t seed = 3, double more = 0) {
  Values costs = normal_values<double>(groups * candidates, seed);
  for (double& cost : costs) cost += more;
  std::vector<std::int64_t> present(costs.size(), 1);
  for (const std::size_t absent : {6u, 9u, 10u, 11u, 13u, 14u}) present[absent] = 0;
  for (std::size_t i = 15; i < 20; ++i) present[i] = 0;
  return {tensor_of<double>(costs, {groups, candidates}),
          Tensor::from<std::int64_t>(present, {groups, candidates}, backend_device())};
}

Values gradient_for(const Tensor& l, const CandidateCosts& costs, double alpha) {
  const Variable leaf = Variable::leaf(l.clone());
  backward(sum(expected_costs(leaf, costs, alpha)));
  return values_of(leaf.gradient());
}

TEST(WeightedRowSums, GradientsMatchDifferences) {
  const Tensor weights = random_tensor({3, 4}, 2);
  expect_gradients(
      [&](const std::vector<Variable>& in) { return weighted_row_sums(in[0], weights); },
      {random_tensor({3, 4}, 1)});
}

TEST(ExpectedCosts, GradientsMatchDifferences) {
  const CandidateCosts costs = costs_of();
  for (const double alpha : {0.005, 0.5, 1.0, 3.0})
    expect_gradients(
        [&](const std::vector<Variable>& in) { return expected_costs(in[0], costs, alpha); },
        {random_tensor({groups, candidates}, 1, 2)});
}

TEST(ExpectedCosts, WithAlphaZeroIsMeanCost) {
  const Tensor l = random_tensor({groups, candidates}, 1, 2);
  const CandidateCosts costs = costs_of();
  const Values cost = values_of(costs.cost),
               y = values_of(expected_costs(Variable(l), costs, 0).value());
  expect_close(y,
               {(cost[0] + cost[1] + cost[2] + cost[3] + cost[4]) / 5,
                (cost[5] + cost[7] + cost[8]) / 3,
                cost[12],
                0},
               1e-14);
  for (const double slope : gradient_for(l, costs, 0)) EXPECT_EQ(slope, 0);
}

TEST(ExpectedCosts, HaveNoGradientForOneCandidateOrEqualCosts) {
  const Tensor l = random_tensor({groups, candidates}, 1, 2);
  const Values slopes = gradient_for(l, costs_of(), 1);
  for (std::size_t i = 10; i < 20; ++i) EXPECT_EQ(slopes[i], 0);
  CandidateCosts equal = costs_of();
  equal.cost = tensor_of<double>(Values(groups * candidates, 0.25), {groups, candidates});
  for (const double slope : gradient_for(l, equal, 1)) EXPECT_NEAR(slope, 0, 1e-16);
}

TEST(ExpectedCosts, ConstantCostsDoNotChangeGradients) {
  const Tensor l = random_tensor({groups, candidates}, 1, 2);
  expect_close(gradient_for(l, costs_of(3, 7), 1), gradient_for(l, costs_of(), 1), 1e-13);
}

// No dtype represents probabilities of e^-500 and e^-4000.
TEST(ExpectedCosts, AcceptTinyProbabilities) {
  const CandidateCosts costs = {
      tensor_of<float>({1, 2, 3}, {1, 3}),
      Tensor::from<std::int64_t>(std::vector<std::int64_t>{1, 1, 1}, {1, 3}, backend_device())};
  const Variable l(tensor_of<float>({-500, -4000, -500}, {1, 3}));
  expect_close(values_of(expected_costs(l, costs, 1).value()), {2}, 1e-6);
}

}  // namespace
}  // namespace longspan::sequence_losses_test
