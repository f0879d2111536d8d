// Attention weights of heads and the losses that use them, on each backend. tests/autograd compares
// their gradients with differences.
#include "framework/kernels/dense_attention_weights.h"
#include "framework/kernels/pointer_generator.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::source_attention_test {
namespace {

using namespace longspan::testing;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

Tensor ids_in(const std::vector<std::int64_t>& ids, const Shape& shape) {
  return Tensor::from<std::int64_t>(ids, shape, backend_device());
}

constexpr std::int64_t batch = 3, queries = 4, keys = 5, heads = 3, dim = 6;
constexpr std::int64_t first = 1, chosen = 2;  // heads
constexpr std::int64_t lengths[batch] = {5, 2, 0};
constexpr double weight = 0.5, factor = 0.4;

// Reference in double, with the layout of the kernel's vectors.
struct Reference {
  Values query, key;

  double probability(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t s) const {
    if (s >= lengths[b]) return 0;
    const auto score = [&](std::int64_t position) {
      double sum = 0;
      for (std::int64_t i = 0; i < dim; ++i)
        sum += query[at(((b * queries + t) * heads + h) * dim + i)] *
               key[at(((b * keys + position) * heads + h) * dim + i)];
      return std::exp(factor * sum);
    };
    double total = 0;
    for (std::int64_t position = 0; position < lengths[b]; ++position) total += score(position);
    return score(s) / total;
  }
};

template <typename T>
class DenseAttentionWeightsTest : public ::testing::Test {};
TYPED_TEST_SUITE(DenseAttentionWeightsTest, FloatingTypes);

TYPED_TEST(DenseAttentionWeightsTest, MatchesMaskedSoftmaxAndGradient) {
  using A = Accumulator<TypeParam>;
  const Reference reference = {normal_values<TypeParam>(batch * queries * heads * dim, 1),
                               normal_values<TypeParam>(batch * keys * heads * dim, 2)};
  const DenseAttentionWeights call = {
      .query = tensor_of<TypeParam>(reference.query, {batch, queries, heads, dim}),
      .key = tensor_of<TypeParam>(reference.key, {batch, keys, heads, dim}),
      .lengths = ids_of({lengths[0], lengths[1], lengths[2]}),
      .begin = first,
      .end = first + chosen,
      .scale = factor,
      .weight = weight,
      .each = poisoned<A>({batch, chosen, queries, keys}),
      .mean = poisoned<A>({batch, queries, keys})};
  dense_attention_weights(backend(), call);
  const Values dmean = normal_values<A>(batch * queries * keys, 3);
  Values mean(dmean.size(), 0), dquery(reference.query.size(), 0), dkey(reference.key.size(), 0);
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t t = 0; t < queries; ++t)
      for (std::int64_t h = first; h < first + chosen; ++h) {
        const std::int64_t row = (b * queries + t) * keys;
        double of_row = 0;
        for (std::int64_t s = 0; s < keys; ++s) {
          mean[at(row + s)] += weight * reference.probability(b, h, t, s);
          of_row += reference.probability(b, h, t, s) * dmean[at(row + s)];
        }
        for (std::int64_t s = 0; s < keys; ++s) {
          const double score =
              factor * weight * reference.probability(b, h, t, s) * (dmean[at(row + s)] - of_row);
          for (std::int64_t i = 0; i < dim; ++i) {
            const auto q = at(((b * queries + t) * heads + h) * dim + i);
            const auto k = at(((b * keys + s) * heads + h) * dim + i);
            dquery[q] += score * reference.key[k];
            dkey[k] += score * reference.query[q];
          }
        }
      }
  expect_close(values_of(call.mean), mean, 4 * tolerance<A>());
  const HeadAttentionGradient gradient = {.forward = call,
                                          .dmean = tensor_of<A>(dmean, {batch, queries, keys}),
                                          .dscores = poisoned<A>({batch, chosen, queries, keys}),
                                          .dquery = poisoned<A>({batch, queries, heads, dim}),
                                          .dkey = poisoned<A>({batch, keys, heads, dim})};
  head_attention_backward(backend(), gradient);
  expect_close(values_of(gradient.dquery), dquery, 8 * tolerance<A>());
  expect_close(values_of(gradient.dkey), dkey, 8 * tolerance<A>());
}

template <typename T>
class PointerGeneratorTest : public ::testing::Test {};
using SumTypes = ::testing::Types<double, float>;
TYPED_TEST_SUITE(PointerGeneratorTest, SumTypes);

TYPED_TEST(PointerGeneratorTest, CopyProbabilitySumsAttentionToTarget) {
  using T = TypeParam;
  const Tensor source = ids_in({3, 1, 3}, {1, 3}), targets = ids_in({3, 2}, {1, 2});
  const CopyProbability call = {.attention = tensor_of<T>({0.5, 0.25, 0.125, 1, 1, 1}, {1, 2, 3}),
                                .source = source,
                                .targets = targets,
                                .copied = poisoned<T>({1, 2})};
  copy_probability(backend(), call);
  expect_close(values_of(call.copied), {0.625, 0}, 1e-7);
  const CopiedMassGradient gradient = {.source = source,
                                       .targets = targets,
                                       .dcopied = tensor_of<T>({2, 3}, {1, 2}),
                                       .dattention = poisoned<T>({1, 2, 3})};
  copied_mass_backward(backend(), gradient);
  expect_close(values_of(gradient.dattention), {2, 0, 2, 0, 0, 0}, 1e-7);
}

TYPED_TEST(PointerGeneratorTest, LossesMatchMixture) {
  using T = TypeParam;
  const PointerGeneratorLosses call = {.generated = tensor_of<T>({1, 3, 90}, {3}),
                                       .gate = tensor_of<T>({0.5, 1, -2}, {3}),
                                       .copied = tensor_of<T>({0.5, 0.25, 0}, {3}),
                                       .targets = ids_of({0, -1, 0}),
                                       .losses = poisoned<T>({3})};
  pointer_generator_losses(backend(), call);
  const double g = 1 / (1 + std::exp(-0.5));
  const double p = g * std::exp(-1.0) + (1 - g) * 0.5;
  expect_close(
      values_of(call.losses), {-std::log(p), 0, 90 + std::log1p(std::exp(2.0))}, tolerance<T>());
  const CopyLossesGradient gradient = {.forward = call,
                                       .dlosses = tensor_of<T>({2, 2, 1}, {3}),
                                       .dgenerated = poisoned<T>({3}),
                                       .dgate = poisoned<T>({3}),
                                       .dcopied = poisoned<T>({3})};
  copy_losses_backward(backend(), gradient);
  const double h = 1 / (1 + std::exp(2.0));
  expect_close(
      values_of(gradient.dgenerated), {2 * g * std::exp(-1.0) / p, 0, 1}, 32 * tolerance<T>());
  expect_close(values_of(gradient.dgate),
               {-2 * g * (1 - g) * (std::exp(-1.0) - 0.5) / p, 0, h - 1},
               32 * tolerance<T>());
  const Values dcopied = values_of(gradient.dcopied);
  expect_close({dcopied[0], dcopied[1]}, {-2 * (1 - g) / p, 0}, 32 * tolerance<T>());
  EXPECT_TRUE(std::isfinite(dcopied[2]));
}

TYPED_TEST(PointerGeneratorTest, CoverageSumsPreviousAttention) {
  using T = TypeParam;
  const CoverageLosses call = {
      .attention = tensor_of<T>({1, 0.25, 0.5, 0.5, 0.25, 0.75}, {1, 3, 2}),
      .targets = ids_in({0, 0, 0}, {1, 3}),
      .coverage = poisoned<T>({1, 3, 2}),
      .losses = poisoned<T>({1, 3})};
  coverage_losses(backend(), call);
  expect_close(values_of(call.coverage), {0, 0, 1, 0.25, 1.5, 0.75}, 1e-7);
  expect_close(values_of(call.losses), {0, 0.75, 1}, 1e-7);
  const CoverageLossesGradient gradient = {.forward = call,
                                           .dlosses = tensor_of<T>({1, 2, 4}, {1, 3}),
                                           .dattention = poisoned<T>({1, 3, 2})};
  coverage_losses_backward(backend(), gradient);
  // Where coverage is the smaller term, earlier attention receives the gradient.
  expect_close(values_of(gradient.dattention), {0, 2, 2, 0, 4, 4}, 1e-7);
}

TYPED_TEST(PointerGeneratorTest, GuidedLossesMatchFormulas) {
  using T = TypeParam;
  const auto run = [](GuidedAttentionLoss kind) {
    const GuidedAttentionLosses call = {.attention = tensor_of<T>({0.5, 0, 0.25, 0.75}, {1, 2, 2}),
                                        .guide = tensor_of<T>({1, 0, 0.5, 0.5}, {1, 2, 2}),
                                        .kind = kind,
                                        .losses = poisoned<T>({1, 2})};
    guided_attention_losses(backend(), call);
    const GuideLossesGradient gradient = {.forward = call,
                                          .dlosses = tensor_of<T>({1, 2}, {1, 2}),
                                          .dattention = poisoned<T>({1, 2, 2})};
    guide_losses_backward(backend(), gradient);
    Values all = values_of(call.losses);
    for (const double value : values_of(gradient.dattention)) all.push_back(value);
    return all;
  };
  expect_close(run(GuidedAttentionLoss::cross_entropy),
               {std::log(2.0), -0.5 * std::log(0.25 * 0.75), -2, 0, -4, -4.0 / 3},
               4 * tolerance<T>());
  expect_close(run(GuidedAttentionLoss::product), {0.5, 0.5, 1, 0, 1, 1}, tolerance<T>());
  expect_close(
      run(GuidedAttentionLoss::square), {0.125, 0.0625, -0.5, 0, -0.5, 0.5}, tolerance<T>());
}

TEST(SourceAttention, RejectsWrongShapes) {
  const Tensor wrong = poisoned<double>({2, 3});
  EXPECT_THROW(
      guided_attention_losses(backend(), {.attention = wrong, .guide = wrong, .losses = wrong}),
      Failure);
  EXPECT_THROW(
      dense_attention_weights(
          backend(), {.query = wrong, .key = wrong, .lengths = {}, .each = wrong, .mean = wrong}),
      Failure);
}

}  // namespace
}  // namespace longspan::source_attention_test
