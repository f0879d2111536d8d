// Baselines and weights of sequence-level training, and the gradients that they estimate.
#include <cmath>

#include "framework/autograd/losses.h"
#include "framework/modeling/sequence_level.h"
#include "tests/support/gradient_check.h"

namespace longspan::sequence_level_losses_test {
namespace {

using namespace longspan::testing;

// With all outputs of a vocabulary as candidates and alpha 1, the risk is the expectation under the
// model, and REINFORCE gradients are on average those of the expected reward, with each baseline.
TEST(SequenceLosses, MeanReinforceGradientEqualsThatOfExpectedCost) {
  constexpr std::size_t outputs = 6, samples = 2;
  const Values logits = normal_values<double>(outputs, 11),
               cost = normal_values<double>(outputs, 12);
  Values p;
  double all = 0, expected = 0;
  for (const double logit : logits) all += std::exp(logit);
  for (std::size_t i = 0; i < outputs; ++i) p.push_back(std::exp(logits[i]) / all);
  for (std::size_t i = 0; i < outputs; ++i) expected += p[i] * cost[i];
  Values l;
  for (const double probability : p) l.push_back(std::log(probability));
  const CandidateCosts whole = {
      tensor_of<double>(cost, {1, outputs}),
      Tensor::from<std::int64_t>(
          std::vector<std::int64_t>(outputs, 1), {1, outputs}, backend_device())};
  const Variable found = expected_costs(Variable(tensor_of<double>(l, {1, outputs})), whole, 1);
  EXPECT_NEAR(found.value().item(), expected, 1e-14);
  // d expected cost / d logit = p (cost - expected).
  for (const bool leaves_one_out : {false, true}) {
    Values sums(outputs, 0.0), squares(outputs, 0.0);
    constexpr int rounds = 20000;
    const Random random(leaves_one_out ? 5 : 6);
    for (int round = 0; round < rounds; ++round) {
      std::size_t drawn[samples];
      Values rewards;
      for (std::size_t s = 0; s < samples; ++s) {
        double uniform = random.uniform_at(static_cast<std::uint64_t>(round) * samples + s);
        for (drawn[s] = 0; drawn[s] + 1 < outputs && uniform >= p[drawn[s]]; ++drawn[s])
          uniform -= p[drawn[s]];
        rewards.push_back(-cost[drawn[s]]);
      }
      const Values baselines =
          leaves_one_out ? leave_one_out_baselines(rewards, samples) : Values(samples, -cost[2]);
      for (std::size_t i = 0; i < outputs; ++i) {
        double slope = 0;
        for (std::size_t s = 0; s < samples; ++s)
          slope -= (rewards[s] - baselines[s]) * ((drawn[s] == i ? 1 : 0) - p[i]) / samples;
        sums[i] += slope;
        squares[i] += slope * slope;
      }
    }
    for (std::size_t i = 0; i < outputs; ++i) {
      const double mean = sums[i] / rounds;
      const double error = std::sqrt((squares[i] / rounds - mean * mean) / rounds);
      EXPECT_NEAR(mean, p[i] * (cost[i] - expected), 3 * error) << "output " << i;
    }
  }
}

TEST(LeaveOneOut, BaselineIsMeanOfOtherRewards) {
  const Values rewards = {1, 2, 6, 0, 0, 3};
  expect_close(leave_one_out_baselines(rewards, 3), {4, 3.5, 1.5, 1.5, 1.5, 0}, 1e-15);
  EXPECT_THROW(leave_one_out_baselines(rewards, 1), Failure);
}

}  // namespace
}  // namespace longspan::sequence_level_losses_test
