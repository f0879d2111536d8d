#include "framework/kernels/attention/block_weights.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan::block_weights_test {
namespace {

using namespace longspan::testing;

constexpr std::int64_t count = 2, blocks = 4;

template <typename T>
class BlockWeightsTest : public ::testing::Test {};
using WideTypes = ::testing::Types<double, float>;
TYPED_TEST_SUITE(BlockWeightsTest, WideTypes);

template <typename T>
SinkhornWeights sinkhorn_of(const Values& scores, std::int64_t iterations, bool noise) {
  SinkhornWeights call = {.scores = tensor_of<T>(scores, {count, blocks, blocks}),
                          .temperature = 0.7,
                          .iterations = iterations,
                          .weights = poisoned<T>({count, blocks, blocks}),
                          .normalizers = poisoned<T>({count, 2 * iterations, blocks})};
  Values uniform;
  for (std::int64_t i = 0; i < count * blocks * blocks; ++i)
    uniform.push_back(static_cast<double>(i % 11 + 1) / 13);
  if (noise) call.uniform = tensor_of<T>(uniform, {count, blocks, blocks});
  return call;
}

TYPED_TEST(BlockWeightsTest, SinkhornRowsAndColumnsSumToOne) {
  Values scores = normal_values<TypeParam>(count * blocks * blocks, 1);
  for (double& score : scores) score = std::abs(score) + 0.5;
  SinkhornWeights call = sinkhorn_of<TypeParam>(scores, 20, true);
  sinkhorn_weights(backend(), call);
  const Values weights = values_of(call.weights);
  for (std::int64_t n = 0; n < count; ++n)
    for (std::int64_t i = 0; i < blocks; ++i) {
      double row = 0, column = 0;
      for (std::int64_t k = 0; k < blocks; ++k) {
        row += weights[static_cast<std::size_t>((n * blocks + i) * blocks + k)];
        column += weights[static_cast<std::size_t>((n * blocks + k) * blocks + i)];
      }
      EXPECT_NEAR(row, 1, 1e-3);
      EXPECT_NEAR(column, 1, 1e-5);
    }
}

// Compares the backward pass with differences of the forward pass.
TEST(BlockWeights, SinkhornGradientMatchesNumericalGradient) {
  const Values scores = normal_values<double>(count * blocks * blocks, 1);
  const Values upstream = normal_values<double>(count * blocks * blocks, 2);
  for (const bool noise : {false, true}) {
    const auto loss = [&](const Values& at) {
      SinkhornWeights call = sinkhorn_of<double>(at, 5, noise);
      sinkhorn_weights(backend(), call);
      const Values weights = values_of(call.weights);
      double sum = 0;
      for (std::size_t i = 0; i < weights.size(); ++i) sum += weights[i] * upstream[i];
      return sum;
    };
    SinkhornWeightsGradient gradient = {
        .forward = sinkhorn_of<double>(scores, 5, noise),
        .dweights = tensor_of<double>(upstream, {count, blocks, blocks}),
        .dscores = poisoned<double>({count, blocks, blocks}),
        .totals = poisoned<double>({count, 2, blocks})};
    sinkhorn_weights(backend(), gradient.forward);
    sinkhorn_weights_backward(backend(), gradient);
    const Values found = values_of(gradient.dscores);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      Values more = scores, less = scores;
      more[i] += 1e-5;
      less[i] -= 1e-5;
      const double expected = (loss(more) - loss(less)) / 2e-5;
      if (std::abs(scores[i]) > 1e-4) {
        EXPECT_NEAR(found[i], expected, 1e-6 * std::max(1.0, std::abs(expected)));
      }
    }
  }
}

template <typename T>
TopWeights top_of(const Values& scores, bool causal) {
  constexpr std::int64_t before = 2, top = 2;
  const std::int64_t columns = blocks + (causal ? before : 0);
  TopWeights call = {
      .scores = tensor_of<T>(Values(scores.begin(), scores.begin() + count * blocks * columns),
                             {count, blocks, columns}),
      .choice = Tensor::empty({count, blocks, top}, DType::i32, backend_device()),
      .before = causal ? before : 0,
      .causal = causal,
      .temperature = 0.8,
      .weights = poisoned<T>({count, blocks * top, columns})};
  choose_blocks(backend(), call);
  top_weights(backend(), call);
  return call;
}

TYPED_TEST(BlockWeightsTest, SelectsLargestScoresInOrder) {
  const Values scores = normal_values<TypeParam>(count * blocks * (blocks + 2), 1);
  for (const bool causal : {false, true}) {
    const TopWeights call = top_of<TypeParam>(scores, causal);
    const std::int64_t columns = call.scores.shape()[2];
    Values expected(static_cast<std::size_t>(call.weights.elements()), 0);
    for (std::int64_t i = 0; i < count * blocks; ++i) {
      std::vector<std::int64_t> left;
      for (std::int64_t c = 0; c < (causal ? 2 + i % blocks : columns); ++c) left.push_back(c);
      for (std::int64_t pick = 0; pick < 2; ++pick) {
        const auto score = [&](std::int64_t c) {
          return scores[static_cast<std::size_t>(i * columns + c)];
        };
        double sum = 0;
        auto best = left.begin();
        for (auto c = left.begin(); c != left.end(); ++c) {
          sum += std::exp(score(*c) / 0.8);
          if (score(*c) > score(*best)) best = c;
        }
        expected[static_cast<std::size_t>((i * 2 + pick) * columns + *best)] =
            std::exp(score(*best) / 0.8) / sum;
        left.erase(best);
      }
    }
    expect_close(values_of(call.weights), expected, 10 * tolerance<TypeParam>());
  }
}

TEST(BlockWeights, TopGradientMatchesNumericalGradient) {
  const Values scores = normal_values<double>(count * blocks * (blocks + 2), 1);
  for (const bool causal : {false, true}) {
    const TopWeights call = top_of<double>(scores, causal);
    const Values upstream = normal_values<double>(call.weights.elements(), 2);
    const auto loss = [&](const Values& at) {
      const Values weights = values_of(top_of<double>(at, causal).weights);
      double sum = 0;
      for (std::size_t i = 0; i < weights.size(); ++i) sum += weights[i] * upstream[i];
      return sum;
    };
    const TopWeightsGradient gradient = {
        .forward = call,
        .dweights = tensor_of<double>(upstream, call.weights.shape()),
        .dscores = poisoned<double>(call.scores.shape())};
    top_weights_backward(backend(), gradient);
    const Values found = values_of(gradient.dscores);
    for (std::size_t i = 0; i < found.size(); ++i) {
      Values more = scores, less = scores;
      more[i] += 1e-5;
      less[i] -= 1e-5;
      EXPECT_NEAR(found[i], (loss(more) - loss(less)) / 2e-5, 1e-7);
    }
  }
}

TEST(BlockWeights, CountsBlocksWithRealTokens) {
  const std::vector<std::int64_t> lengths = {0, 1, 3, 4, 9};
  const Tensor length = Tensor::from<std::int64_t>(lengths, {5}, backend_device());
  const Tensor counts = length.empty_like();
  count_blocks(backend(), length, 3, counts);
  const Tensor here = counts.to_host();
  const auto found = here.span<std::int64_t>();
  EXPECT_EQ(std::vector<std::int64_t>(found.begin(), found.end()),
            (std::vector<std::int64_t>{0, 1, 1, 2, 3}));
}

// Two blocks of two tokens, the last of which is padding. One head, one mixed block each.
TEST(BlockWeights, MarksMixedKeysThatAreMostlyPadding) {
  for (const bool by_largest : {false, true})
    for (const bool by_length : {false, true}) {
      MixedPadding mixed = {.weights = tensor_of<double>({0.7, 0.2, 0.4, 0.45}, {1, 2, 2}),
                            .by_largest = by_largest,
                            .position = Tensor::empty({2, 1, 4}, DType::i32, backend_device())};
      if (by_length)
        mixed.length =
            Tensor::from<std::int64_t>(std::vector<std::int64_t>{3}, {1}, backend_device());
      else
        mixed.padding = Tensor::from<std::uint8_t>(
            std::vector<std::uint8_t>{0, 0, 0, 1}, {1, 4}, backend_device());
      mixed_padding(backend(), mixed);
      const Tensor here = mixed.position.to_host();
      const auto found = here.span<std::int32_t>();
      EXPECT_EQ(std::vector<std::int32_t>(found.begin(), found.end()),
                (std::vector<std::int32_t>{0, 0, 0, 0, /**/ 0, -1, 0, -1}));
    }
}

}  // namespace
}  // namespace longspan::block_weights_test
