#include <algorithm>

#include "framework/autograd/attention.h"
#include "framework/autograd/ops.h"
#include "tests/support/gradient_check.h"

namespace longspan::linear_attention_test {
namespace {

using testing::backend_device;
using testing::expect_close;
using testing::expect_gradients;
using testing::infinity;
using testing::random_tensor;
using testing::same_bits;
using testing::Values;
using testing::values_of;

constexpr std::int64_t batch = 2, time = 7, heads = 2, dim = 3;

Tensor rows(std::int64_t width, std::uint64_t seed, std::int64_t positions = time) {
  return random_tensor({batch, positions, heads, width}, seed);
}

// Decays of at most 0, as a differentiable function.
Variable falling(const Variable& x) { return gated_weights(x).decay; }

TEST(LinearAttention, GradientsMatchDifferences) {
  for (const bool causal : {true, false})
    expect_gradients(
        [=](const auto& in) {
          return linear_attention(in[0],
                                  in[1],
                                  in[2],
                                  in[3],
                                  causal ? falling(in[4]) : Variable(),
                                  {.map = FeatureMap::elu_plus_one, .causal = causal});
        },
        causal ? std::vector<Tensor>{rows(dim, 1),
                                     rows(dim, 2),
                                     rows(4, 3),
                                     random_tensor({batch, time, heads}, 4),
                                     random_tensor({batch, time, heads}, 5)}
               : std::vector<Tensor>{rows(dim, 1),
                                     rows(dim, 2, 5),
                                     rows(4, 3, 5),
                                     random_tensor({batch, 5, heads}, 4)});
}

TEST(LinearAttention, SoftmaxKeyGradientsMatchDifferences) {
  expect_gradients(
      [](const auto& in) {
        return linear_attention(softmax_of_features(in[0]),
                                exponentials_of_positions(in[1], {}),
                                in[2],
                                {},
                                {},
                                {.causal = false, .divisor = Divisor::none, .softmax_keys = true});
      },
      {rows(dim, 1), rows(dim, 2, 5), rows(4, 3, 5)});
}

// With all values 1, the output is the sum of the weights.
TEST(LinearAttention, EfficientAttentionWeightsSumToOne) {
  const Tensor ones =
      Tensor::from<double>(Values(static_cast<std::size_t>(batch * time * heads * dim), 1),
                           rows(dim, 1).shape(),
                           backend_device());
  const Variable y =
      linear_attention(softmax_of_features(Variable(rows(dim, 1))),
                       exponentials_of_positions(Variable(rows(dim, 2)), {}),
                       Variable(ones),
                       {},
                       {},
                       {.causal = false, .divisor = Divisor::none, .softmax_keys = true});
  expect_close(values_of(y.value()), values_of(ones), 1e-13);
}

// More rows than a thread's part and than a chunk.
TEST(LinearAttention, LongGradientsMatchDifferences) {
  constexpr std::int64_t long_time = 300;
  const auto f = [](const auto& in) {
    return linear_attention(
        in[0], in[1], in[2], {}, falling(in[3]), {.map = FeatureMap::elu_plus_one});
  };
  const std::vector<Tensor> inputs = {random_tensor({1, long_time, 1, dim}, 1),
                                      random_tensor({1, long_time, 1, dim}, 2),
                                      random_tensor({1, long_time, 1, 2}, 3),
                                      random_tensor({1, long_time, 1}, 4)};
  for (const int threads : {1, 2, 3})
    testing::with_threads(threads, [&] {
      expect_gradients(f, inputs, {.tolerance = 1e-7, .directions = 1, .elements = 2});
      return 0;
    });
}

TEST(RandomFeatures, GradientsMatchDifferences) {
  const Tensor projection = random_tensor({5, dim}, 9);
  for (const RandomMap map : {RandomMap::relu, RandomMap::trigonometric})
    expect_gradients(
        [&](const auto& in) {
          return random_features(in[0], projection, {.map = map, .scale = 0.7}).features;
        },
        {rows(dim, 1)});
  expect_gradients([](const auto& in) { return l2_normalize(in[0]); }, {rows(dim, 1)});
  expect_gradients([](const auto& in) { return scale_features(in[0], in[1]); },
                   {rows(dim, 1), random_tensor({heads, dim}, 2)});
  expect_gradients([](const auto& in) { return softmax_of_features(in[0]); }, {rows(dim, 1)});
  expect_gradients(
      [](const auto& in) {
        const GatedWeights gated = gated_weights(in[0]);
        return add(gated.decay, gated.log_weight);
      },
      {random_tensor({batch, time, heads}, 1)});
}

// Attention does not depend on the stabilizers, which are constants.
TEST(RandomFeatures, SoftmaxFeatureGradientsMatchDifferences) {
  const Tensor projection = random_tensor({5, dim}, 9);
  for (const auto& [causal, log_gradients] :
       {std::pair(true, false), {true, true}, {false, false}, {false, true}})
    expect_gradients(
        [&, log_gradients = log_gradients, causal = causal](const auto& in) {
          const RandomFeatures map = {.scale = 0.7, .log_gradients = log_gradients};
          const StabilizedFeatures key = random_features(in[1], projection, map);
          const KeyWeights weights = weights_of_stabilizers(key.shift, causal);
          return linear_attention(
              random_features(in[0], projection, map).features,
              key.features,
              in[2],
              Variable(weights.log_weight),
              Variable(weights.decay),
              {.map = log_gradients ? FeatureMap::exponential : FeatureMap::identity,
               .causal = causal,
               .epsilon = 0});
        },
        {rows(dim, 1), rows(dim, 2), rows(4, 3)});
}

Tensor shifts(const Values& numbers) {
  return Tensor::from<double>(numbers, {1, std::ssize(numbers), 1}, backend_device());
}

TEST(KeyWeights, AreRelativeToRunningMaxStabilizer) {
  const KeyWeights weights = weights_of_stabilizers(shifts({1, -infinity, 0, 3, 2}), true);
  expect_close(values_of(weights.log_weight), {0, -infinity, -1, 0, -1}, 0);
  expect_close(values_of(weights.decay), {0, 0, 0, -2, 0}, 0);
  const Tensor first = Tensor::from<double>(Values{2}, {1, 1}, backend_device());
  const Tensor last = first.empty_like();
  const KeyWeights later = weights_of_stabilizers(shifts({1, 5}), true, {}, first, last);
  expect_close(values_of(later.log_weight), {-1, 0}, 0);
  expect_close(values_of(later.decay), {0, -3}, 0);
  EXPECT_EQ(values_of(last)[0], 5);
  const KeyWeights whole = weights_of_stabilizers(shifts({1, -infinity, 3}), false);
  expect_close(values_of(whole.log_weight), {-2, -infinity, 0}, 0);
}

// A constant gate g makes the state a moving average over time.
TEST(LinearAttention, ConstantGateEqualsMovingAverage) {
  const double gate = 0.3, g = 1 / (1 + std::exp(-gate));
  const Variable key(random_tensor({1, time, 1, dim}, 1)), value(random_tensor({1, time, 1, 2}, 2));
  const Tensor gates = Tensor::from<double>(Values(time, gate), {1, time, 1}, backend_device());
  const GatedWeights gated = gated_weights(Variable(gates));
  const Variable y =
      linear_attention(key, key, value, gated.log_weight, gated.decay, {.divisor = Divisor::none});
  Values expected;
  std::vector<Values> state(dim, Values(2, 0));
  for (std::size_t t = 0; t < time; ++t) {
    const double* const k = key.value().data<double>() + t * dim;
    const double* const v = value.value().data<double>() + t * 2;
    for (std::size_t c = 0; c < 2; ++c) {
      double sum = 0;
      for (std::size_t f = 0; f < dim; ++f) {
        state[f][c] = g * state[f][c] + (1 - g) * k[f] * v[c];
        sum += k[f] * state[f][c];
      }
      expected.push_back(sum);
    }
  }
  expect_close(values_of(y.value()), expected, 1e-13);
}

}  // namespace
}  // namespace longspan::linear_attention_test
