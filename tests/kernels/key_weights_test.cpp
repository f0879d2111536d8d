#include "framework/kernels/attention/key_weights.h"

#include <algorithm>

#include "framework/kernels/attention/sequence_softmax.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::key_weights_test {
namespace {

using namespace longspan::testing;

template <typename T>
class KeyWeightsTest : public ::testing::Test {};
TYPED_TEST_SUITE(KeyWeightsTest, FloatingTypes);

// Rows of two ranges of a sequence of length 9, with 2 batch rows and 2 heads.
TYPED_TEST(KeyWeightsTest, MasksPaddingByPosition) {
  using A = Accumulator<TypeParam>;
  const Ranges positions = {{1, 3}, {6, 9}};
  std::vector<std::uint8_t> padding(18, 0);
  padding[2] = padding[9 + 7] = 1;
  const Tensor weights = tensor_of<A>(Values(20, 0.5), {2, 5, 2});
  mask_keys(backend(),
            {.padding = Tensor::from<std::uint8_t>(padding, {2, 9}, backend_device()),
             .length = ids_of({8, 20}),
             .positions = positions,
             .log_weight = weights});
  const bool hidden[2][5] = {{false, true, false, false, true}, {false, false, false, true, false}};
  Values expected;
  for (const auto& row : hidden)
    for (const bool each : row)
      for (int h = 0; h < 2; ++h) expected.push_back(each ? -infinity : 0.5);
  EXPECT_EQ(values_of(weights), expected);
}

TYPED_TEST(KeyWeightsTest, SubtractsLargestShiftSoFar) {
  using A = Accumulator<TypeParam>;
  const Tensor shift = tensor_of<A>({1, 4, 3, -infinity, 0, 5, 2, 1}, {1, 4, 2});
  const Ranges parts = {{0, 2}, {2, 4}};
  const Tensor tops = poisoned<A>({2, 1, 2}), last = poisoned<A>({1, 2});
  max_shifts(backend(), shift, parts, tops);
  EXPECT_EQ(values_of(tops), (Values{3, 4, 2, 5}));
  scan_tops(backend(), {.tops = tops, .order = {0, 1}, .last = last});
  EXPECT_EQ(values_of(tops), (Values{-infinity, -infinity, 3, 4}));
  EXPECT_EQ(values_of(last), (Values{3, 5}));
  const ShiftedKeys keys = {.shift = shift,
                            .parts = parts,
                            .before = tops,
                            .log_weight = poisoned<A>(shift.shape()),
                            .decay = poisoned<A>(shift.shape())};
  weigh_shifted(backend(), keys);
  EXPECT_EQ(values_of(keys.log_weight), (Values{0, 0, 0, -infinity, -3, 0, -1, -4}));
  EXPECT_EQ(values_of(keys.decay), (Values{0, 0, -2, 0, 0, -1, 0, 0}));
}

TYPED_TEST(KeyWeightsTest, GateLogsAndGradientMatchLogSigmoid) {
  using T = TypeParam;
  using A = Accumulator<T>;
  const Values gate = {0, 1, -2, 30, -90};
  const auto of = [](const Values& values) { return tensor_of<A>(values, {5}); };
  const GateLogs logs = {
      .gate = tensor_of<T>(gate, {5}), .decay = poisoned<A>({5}), .log_weight = poisoned<A>({5})};
  gate_logs(backend(), logs);
  const Values ddecay = normal_values<A>(5, 1), dweight = normal_values<A>(5, 2);
  const GateLogsGradient gradient = {.gate = logs.gate,
                                     .ddecay = of(ddecay),
                                     .dlog_weight = of(dweight),
                                     .dgate = poisoned<T>({5})};
  gate_logs_backward(backend(), gradient);
  Values decay, weight, dgate;
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double kept = 1 / (1 + std::exp(-gate[i]));
    decay.push_back(-std::log1p(std::exp(-gate[i])));
    weight.push_back(-std::log1p(std::exp(gate[i])));
    dgate.push_back(ddecay[i] * (1 - kept) - dweight[i] * kept);
  }
  expect_close(values_of(logs.decay), decay, tolerance<A>());
  expect_close(values_of(logs.log_weight), weight, tolerance<A>());
  expect_close(values_of(gradient.dgate), dgate, 2 * tolerance<T>());
}

TYPED_TEST(KeyWeightsTest, SoftmaxAndExponentialsMatchFormulas) {
  using T = TypeParam;
  using A = Accumulator<T>;
  constexpr std::int64_t time = 3, heads = 2, dim = 4;
  const Values x = normal_values<T>(time * heads * dim, 1);
  const Shape shape = {1, time, heads, dim};
  const Tensor y = poisoned<T>(shape), dx = poisoned<T>(shape);
  softmax_rows(backend(), tensor_of<T>(x, shape), y);
  const Values dy = normal_values<T>(time * heads * dim, 2), made = values_of(y);
  softmax_rows_backward(backend(), y, tensor_of<T>(dy, shape), dx);
  Values expected, gradient;
  for (std::size_t r = 0; r < x.size(); r += dim) {
    double sum = 0, along = 0;
    for (std::size_t c = r; c < r + dim; ++c) sum += std::exp(x[c]);
    for (std::size_t c = r; c < r + dim; ++c) expected.push_back(std::exp(x[c]) / sum);
    for (std::size_t c = r; c < r + dim; ++c) along += made[c] * dy[c];
    for (std::size_t c = r; c < r + dim; ++c) gradient.push_back(made[c] * (dy[c] - along));
  }
  expect_close(made, expected, tolerance<T>());
  expect_close(values_of(dx), gradient, tolerance<T>());
  // The second key of the first head is masked.
  const Tensor weights = tensor_of<A>({0, 0, -infinity, 0, 0, 0}, {1, time, heads});
  const Tensor tops = poisoned<A>({1, heads, dim});
  max_over_positions(backend(), tensor_of<T>(x, shape), weights, tops);
  exponentials_of_positions(backend(), tensor_of<T>(x, shape), weights, tops, y);
  Values largest(heads * dim, -infinity), powers;
  const auto seen = [](std::size_t i) { return i / dim != 2; };
  for (std::size_t i = 0; i < x.size(); ++i)
    if (seen(i)) largest[i % (heads * dim)] = std::max(largest[i % (heads * dim)], x[i]);
  for (std::size_t i = 0; i < x.size(); ++i)
    powers.push_back(seen(i) ? std::exp(x[i] - largest[i % (heads * dim)]) : 0);
  expect_close(values_of(tops), largest, 0);
  expect_close(values_of(y), powers, tolerance<T>());
}

TYPED_TEST(KeyWeightsTest, DividesStatesByLastElement) {
  using A = Accumulator<TypeParam>;
  const Tensor states = tensor_of<A>({1, 2, 4, 3, 5, 0}, {2, 3});
  divide_states(backend(), states);
  EXPECT_EQ(values_of(states), (Values{0.25, 0.5, 4, 0, 0, 0}));
  const Tensor gradients = tensor_of<A>({8, 4, 9, 1, 1, 1}, {2, 3});
  divide_states_backward(backend(), states, gradients);
  EXPECT_EQ(values_of(gradients), (Values{2, 1, -1, 0, 0, 0}));
}

}  // namespace
}  // namespace longspan::key_weights_test
