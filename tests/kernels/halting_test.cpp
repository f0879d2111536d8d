#include "framework/kernels/halting.h"

#include <cmath>

#include "tests/kernels/kernel_testing.h"

namespace longspan::halting_test {
namespace {

using namespace longspan::testing;

Tensor decisions_of(const std::vector<std::uint8_t>& values) {
  return Tensor::from<std::uint8_t>(values, {std::ssize(values)}, backend_device());
}

std::vector<std::uint8_t> read(const Tensor& decisions) {
  const Tensor here = decisions.to_host();
  const auto values = here.span<std::uint8_t>();
  return {values.begin(), values.end()};
}

constexpr std::uint8_t rests = Halting::rests, running = Halting::running, halts = Halting::halts;

TEST(HaltingDecision, HaltsRunningPositionsAtThreshold) {
  // Probabilities of 1/2. The second sum reaches 1 exactly, the third exceeds it, the others
  // already rest.
  const Tensor logits = tensor_of<double>({0, 0, 0, 0, 0}, {5});
  const Tensor sums = tensor_of<double>({0.25, 0.5, 0.75, 0.9, 1}, {5});
  const Tensor before = decisions_of({running, running, running, rests, halts});
  const Tensor now = decisions_of({9, 9, 9, 9, 9});
  HaltingDecision decision = {
      .logits = logits, .sums = sums, .before = before, .now = now, .threshold = 1};
  decide_halting(backend(), decision);
  EXPECT_EQ(read(now), (std::vector<std::uint8_t>{running, halts, halts, rests, rests}));
  decision.now = before;
  decision.last = true;
  decide_halting(backend(), decision);
  EXPECT_EQ(read(before), (std::vector<std::uint8_t>{halts, halts, halts, rests, rests}));
}

template <typename T>
class HaltingWeightsTest : public ::testing::Test {};
using Wide = ::testing::Types<double, float>;
TYPED_TEST_SUITE(HaltingWeightsTest, Wide);

TYPED_TEST(HaltingWeightsTest, WeightIsProbabilityOrRemainder) {
  const Tensor now = decisions_of({running, halts, rests});
  const HaltingWeights call = {.logits = tensor_of<TypeParam>({std::log(3.0), 0, 0}, {3}),
                               .sums = tensor_of<TypeParam>({0.125, 0.625, 1}, {3}),
                               .costs = tensor_of<TypeParam>({2, 3, 4.5}, {3}),
                               .now = now,
                               .weights = poisoned<TypeParam>({3}),
                               .next_sums = poisoned<TypeParam>({3}),
                               .next_costs = poisoned<TypeParam>({3})};
  halting_weights(backend(), call);
  expect_close(values_of(call.weights), {0.75, 0.375, 0}, tolerance<TypeParam>());
  expect_close(values_of(call.next_sums), {0.875, 1, 1}, tolerance<TypeParam>());
  expect_close(values_of(call.next_costs), {3, 4.375, 4.5}, tolerance<TypeParam>());
  HaltingWeightsGradient back = {.logits = call.logits,
                                 .now = now,
                                 .dweights = tensor_of<TypeParam>({2, 3, 5}, {3}),
                                 .dnext_sums = tensor_of<TypeParam>({4, 6, 7}, {3}),
                                 .dnext_costs = tensor_of<TypeParam>({8, 10, 12}, {3}),
                                 .dlogits = poisoned<TypeParam>({3}),
                                 .dsums = poisoned<TypeParam>({3})};
  halting_weights_backward(backend(), back);
  expect_close(values_of(back.dlogits), {6 * 0.1875, 0, 0}, tolerance<TypeParam>());
  expect_close(values_of(back.dsums), {4, -13, 7}, tolerance<TypeParam>());
  back.dweights = back.dnext_costs = Tensor();
  halting_weights_backward(backend(), back);
  expect_close(values_of(back.dlogits), {4 * 0.1875, 0, 0}, tolerance<TypeParam>());
  expect_close(values_of(back.dsums), {4, 0, 7}, tolerance<TypeParam>());
}

template <typename T>
class HaltingStatesTest : public ::testing::Test {};
TYPED_TEST_SUITE(HaltingStatesTest, FloatingTypes);

TYPED_TEST(HaltingStatesTest, AccumulatesStatesAndGradientsByWeight) {
  using A = Accumulator<TypeParam>;
  constexpr std::int64_t rows = 5;
  for (const std::int64_t width : {1, 6, 70})
    for (const StateAccumulation join : {StateAccumulation::sum, StateAccumulation::interpolate})
      for (const bool first : {true, false}) {
        const std::int64_t count = rows * width;
        const Values x = normal_values<TypeParam>(count, 1), before = normal_values<A>(count, 2);
        const Values dy = normal_values<A>(count, 3), weights = {0, 1, 0.25, 0.5, 0.75};
        Values y, dx, dbefore, dweights(rows, 0.0);
        for (std::size_t i = 0; i < x.size(); ++i) {
          const std::size_t row = i / static_cast<std::size_t>(width);
          const double there = first ? 0 : before[i];
          const double rest = join == StateAccumulation::sum ? 1 : 1 - weights[row];
          y.push_back(weights[row] * x[i] + rest * there);
          dx.push_back(weights[row] * dy[i]);
          dbefore.push_back((1 - weights[row]) * dy[i]);
          dweights[row] += dy[i] * (x[i] - (join == StateAccumulation::sum ? 0 : there));
        }
        const Tensor given = tensor_of<TypeParam>(x, {rows, width});
        const Tensor weight = tensor_of<A>(weights, {rows});
        const Tensor found =
            first ? poisoned<A>({rows, width}) : tensor_of<A>(before, {rows, width});
        const Tensor kept = first ? Tensor() : found.clone();
        accumulate_states(backend(),
                          {.x = given,
                           .weights = weight,
                           .before = first ? Tensor() : found,
                           .y = found,
                           .join = join});
        expect_close(values_of(found), y, tolerance<A>());
        const Tensor upstream = tensor_of<A>(dy, {rows, width});
        const JoinRowsGradient back = {
            .x = given,
            .weights = weight,
            .before = kept,
            .dy = upstream,
            .dx = poisoned<TypeParam>({rows, width}),
            .dweights = poisoned<A>({rows}),
            .dbefore = join == StateAccumulation::interpolate && !first ? upstream : Tensor(),
            .join = join};
        join_rows_backward(backend(), back);
        expect_close(values_of(back.dx), dx, tolerance<TypeParam>());
        expect_close(values_of(back.dweights), dweights, 10 * tolerance<A>(), 10);
        if (back.dbefore.defined()) expect_close(values_of(upstream), dbefore, tolerance<A>());
      }
}

TYPED_TEST(HaltingStatesTest, KeepsRestingRowsBitForBit) {
  constexpr std::int64_t width = 7;
  const Tensor now = decisions_of({running, rests, halts});
  const Values a = normal_values<TypeParam>(3 * width, 1),
               b = normal_values<TypeParam>(3 * width, 2);
  for (const bool moves : {true, false})
    for (const bool stays : {true, false}) {
      Values expected;
      for (std::size_t i = 0; i < a.size(); ++i)
        expected.push_back(i / width == 1 ? (stays ? b[i] : 0) : (moves ? a[i] : 0));
      const Tensor y = poisoned<TypeParam>({3, width});
      select_rows(backend(),
                  {.now = now,
                   .moving = moves ? tensor_of<TypeParam>(a, {3, width}) : Tensor(),
                   .resting = stays ? tensor_of<TypeParam>(b, {3, width}) : Tensor(),
                   .y = y});
      EXPECT_EQ(values_of(y), expected);
    }
}

}  // namespace
}  // namespace longspan::halting_test
