// Adaptive computation time around a block of one matrix.
#include "framework/nn/adaptive_computation_time.h"

#include <cmath>

#include "framework/kernels/halting.h"
#include "tests/nn/layer_testing.h"

namespace longspan::adaptive_computation_time_test {
namespace {

using testing::backend_device;
using testing::expect_close;
using testing::random_tensor;
using testing::Values;
using testing::values_of;
using Output = ActOptions::Output;
using Reads = ActOptions::Reads;

constexpr std::int64_t width = 4;

// A block whose states change at each step.
struct Steps {
  explicit Steps(const ActOptions& options)
      : parameters(testing::one_process_parameters()),
        matrix(Scope(parameters).child("matrix"), {.in = width, .out = width}),
        adaptive(Scope(parameters).child("halting"), width, options) {
    parameters.allocate(Random(3));
  }

  RecurrentBlock block() {
    return {.read =
                [this](const Variable& states, std::int64_t) {
                  seen.push_back(values_of(states.value()));
                  return states;
                },
            .run =
                [this](const Variable& read,
                       std::int64_t step,
                       const std::shared_ptr<const ActiveRows>& taken) {
                  reported.push_back(taken);
                  return activate(Activation::gelu,
                                  matrix(scale_and_add_positions(
                                      read, 1, Variable(random_tensor({3, width}, 50 + step)))));
                }};
  }
  // Sets all weights and the bias of the halting unit.
  void set_halting(double weight, double bias) {
    Tensor weights = parameters.named("halting/weight").master;
    std::ranges::fill(weights.span<double>(), weight);
    Tensor constant = parameters.named("halting/bias").master;
    std::ranges::fill(constant.span<double>(), bias);
  }
  ActResult run(const Tensor& x, const Tensor& real = {}, const ForwardContext& pass = {}) {
    seen.clear();
    reported.clear();
    return adaptive(Variable(x), block(), real, pass);
  }
  // The states after `steps` steps of all positions.
  Values after(const Tensor& x, std::int64_t steps) {
    Variable states(x);
    const RecurrentBlock all = block();
    for (std::int64_t step = 0; step < steps; ++step) states = all.run(states, step, nullptr);
    return values_of(states.value());
  }

  Parameters parameters;
  Linear matrix;
  AdaptiveComputationTime adaptive;
  std::vector<Values> seen;
  std::vector<std::shared_ptr<const ActiveRows>> reported;
};

double logit(double probability) { return std::log(probability / (1 - probability)); }

TEST(AdaptiveComputationTime, HaltsAfterOneStepOrRunsAllSteps) {
  const Tensor x = random_tensor({2, 3, width}, 1);
  for (const Output output : {Output::mean, Output::last}) {
    Steps steps({.steps = 4, .output = output});
    steps.set_halting(0, 30);
    const ActResult one = steps.run(x);
    EXPECT_EQ(one.steps.size(), 1u);
    EXPECT_EQ(one.taken, 6);
    expect_close(values_of(one.states.value()), steps.after(x, 1), 1e-12);
    expect_close(values_of(one.costs.value()), Values(6, 2.0), 1e-12);
    steps.set_halting(0, -30);
    const ActResult all = steps.run(x);
    EXPECT_EQ(all.taken, 24);
    expect_close(values_of(all.states.value()), steps.after(x, 4), 1e-11);
    expect_close(values_of(all.costs.value()), Values(6, 5.0), 1e-11);
  }
}

TEST(AdaptiveComputationTime, ConstantProbabilityHaltsAtThreshold) {
  const Tensor x = random_tensor({1, 3, width}, 1);
  for (const auto& [probability, count] : {std::pair(0.5, 2), std::pair(0.3, 4)}) {
    Steps steps({.steps = 9, .slack = 0.01});
    steps.set_halting(0, logit(probability));
    const ActResult found = steps.run(x);
    EXPECT_EQ(std::ssize(found.steps), count);
    expect_close(
        values_of(found.costs.value()), Values(3, count + 1 - (count - 1) * probability), 1e-12);
  }
}

// Includes halting at the step limit.
TEST(AdaptiveComputationTime, WeightsSumToOneUnlessRemainderIsDropped) {
  for (const std::int64_t most : {3, 12}) {
    Steps steps({.steps = most});
    steps.set_halting(0.5, -1);
    const ActResult found = steps.run(random_tensor({5, 3, width}, 2));
    Values sums(15, 0.0);
    for (const ActStep& step : found.steps) {
      const Values weights = values_of(step.weights);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += weights[i];
    }
    expect_close(sums, Values(15, 1.0), 1e-14);
  }
  Steps unfinished({.steps = 2, .remainder_at_end = false});
  unfinished.set_halting(0, logit(0.25));
  const ActResult found = unfinished.run(random_tensor({1, 3, width}, 2));
  expect_close(values_of(found.steps[1].weights), Values(3, 0.25), 1e-14);
  expect_close(values_of(found.costs.value()), Values(3, 2.0), 1e-14);
}

TEST(AdaptiveComputationTime, FreezeKeepsHaltedStatesBitForBit) {
  const Tensor x = random_tensor({2, 3, width}, 4);
  for (const bool freeze : {true, false}) {
    Steps steps({.steps = 12, .freeze = freeze});
    steps.set_halting(1, -1);
    const ActResult found = steps.run(x);
    int kept = 0;
    int changed = 0;
    for (std::size_t step = 1; step + 1 < found.steps.size(); ++step) {
      const auto decisions = found.steps[step].decisions.span<std::uint8_t>();
      for (std::size_t i = 0; i < decisions.size() * width; ++i) {
        if (decisions[i / width] != Halting::rests) continue;
        (steps.seen[step][i] == steps.seen[step + 1][i] ? kept : changed) += 1;
      }
    }
    EXPECT_GT(kept + changed, 0);
    EXPECT_EQ(freeze ? changed : kept, 0);
  }
}

// The block receives exactly the rows that still run after the previous step.
TEST(AdaptiveComputationTime, PassesRunningRowsToBlock) {
  const Tensor x = random_tensor({2, 3, width}, 4);
  const std::vector<std::uint8_t> all_but_one = {1, 1, 1, 1, 1, 0};
  const Tensor real = Tensor::from<std::uint8_t>(all_but_one, {2, 3}, backend_device());
  Steps steps({.steps = 12});
  steps.set_halting(1, -1);
  const ActResult found = steps.run(x, real);
  std::size_t fewest = 6;
  for (std::size_t step = 0; step < found.steps.size(); ++step) {
    std::vector<std::int64_t> expected;
    for (std::int64_t i = 0; i < 6; ++i)
      if (step == 0
              ? i < 5
              : found.steps[step - 1].decisions.span<std::uint8_t>()[static_cast<std::size_t>(i)] ==
                    Halting::running)
        expected.push_back(i);
    ASSERT_TRUE(steps.reported[step]);
    const auto which = steps.reported[step]->rows.which.span<std::int64_t>();
    EXPECT_EQ(std::vector<std::int64_t>(which.begin(), which.end()), expected);
    fewest = std::min(fewest, expected.size());
  }
  EXPECT_LT(fewest, 4u);
  for (const ActOptions& options : {ActOptions{.freeze = false}, ActOptions{.compaction = false}}) {
    Steps all(options);
    all.set_halting(1, -1);
    all.run(x, real);
    for (const auto& reported : all.reported) EXPECT_EQ(reported, nullptr);
  }
}

TEST(AdaptiveComputationTime, GradientsMatchNumericalGradients) {
  const Tensor x = random_tensor({2, 3, width}, 1);
  for (const Reads reads : {Reads::after, Reads::before})
    for (const Output output : {Output::mean, Output::interpolated, Output::last})
      for (const bool deviates : {false, true}) {
        Steps steps({.steps = 5,
                     .reads = reads,
                     .output = output,
                     .freeze = !deviates,
                     .remainder_at_end = !deviates});
        steps.set_halting(0.4, -0.8);
        EXPECT_GT(steps.run(x).steps.size(), 2u);
        for (const bool cost : {false, true})
          testing::expect_layer_gradients(steps.parameters,
                                          [&](const std::vector<Variable>& in) {
                                            const ActResult found =
                                                steps.adaptive(in[0], steps.block(), {}, {});
                                            return cost ? found.costs : found.states;
                                          },
                                          {x});
      }
}

TEST(AdaptiveComputationTime, PaddingTakesNoStepsAndChangesNothing) {
  const Tensor x = random_tensor({2, 3, width}, 5);
  const Tensor other = x.clone();
  for (std::int64_t c = 0; c < width; ++c) other.data<double>()[5 * width + c] += 7;
  const std::vector<std::uint8_t> all_but_one = {1, 1, 1, 1, 1, 0};
  const Tensor real = Tensor::from<std::uint8_t>(all_but_one, {2, 3}, backend_device());
  Steps steps({.steps = 6});
  steps.set_halting(0.5, -1);
  const ActResult before = steps.run(x, real);
  const ActResult after = steps.run(other, real);
  EXPECT_EQ(values_of(before.states.value()), values_of(after.states.value()));
  EXPECT_EQ(values_of(before.costs.value())[5], 0);
  const ActResult whole = steps.run(x);
  Values expected = values_of(whole.states.value());
  std::fill_n(expected.begin() + 5 * width, width, 0.0);
  EXPECT_EQ(values_of(before.states.value()), expected);
}

TEST(AdaptiveComputationTime, RecomputationReusesHaltingDecisions) {
  const Tensor x = random_tensor({2, 3, width}, 6);
  Steps steps({.steps = 6});
  steps.set_halting(0, -1);
  const ForwardContext pass = {.decisions = std::make_shared<DecisionCache>()};
  const ActResult first = steps.run(x, {}, pass);
  steps.set_halting(0, 30);
  const ActResult again = steps.run(x, {}, pass);
  EXPECT_EQ(again.steps.size(), first.steps.size());
  EXPECT_EQ(steps.run(x).steps.size(), 1u);
}

}  // namespace
}  // namespace longspan::adaptive_computation_time_test
