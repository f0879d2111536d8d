#include "framework/autograd/losses.h"
#include "tests/support/gradient_check.h"

namespace longspan::cross_attention_losses_test {
namespace {

using namespace longspan::testing;

Tensor ids_in(const std::vector<std::int64_t>& ids, const Shape& shape) {
  return Tensor::from<std::int64_t>(ids, shape, backend_device());
}

// Positive values; some rows sum to about 1.
Tensor positive(const Shape& shape, std::uint64_t seed) {
  Values values = normal_values<double>(shape.elements(), seed);
  for (double& value : values) value = 0.05 + std::abs(value) / 4;
  return tensor_of<double>(values, shape);
}

// Key lengths 4 (full), 2 and 0; one head and two heads.
TEST(DenseAttentionWeights, GradientsMatchDifferences) {
  for (const Range heads : {Range{1, 2}, Range{0, 2}})
    expect_gradients(
        [=](const std::vector<Variable>& in) {
          return dense_attention_weights(in[0], in[1], ids_of({4, 2, 0}), heads, 0.5);
        },
        {random_tensor({3, 2, 3, 5}, 1), random_tensor({3, 4, 3, 5}, 2)});
  expect_gradients(
      [](const std::vector<Variable>& in) {
        return dense_attention_weights(in[0], in[1], {}, {0, 1}, 1);
      },
      {random_tensor({1, 3, 1, 2}, 3), random_tensor({1, 5, 1, 2}, 4)});
}

// With unit vectors as values, the output of tiled attention is the probabilities.
TEST(DenseAttentionWeights, EqualTiledAttentionOverUnitVectors) {
  const Variable query(random_tensor({2, 3, 2, 4}, 1)), key(random_tensor({2, 5, 2, 4}, 2));
  const Tensor lengths = ids_of({5, 3});
  Values unit;
  for (int row = 0; row < 2; ++row)
    for (int s = 0; s < 5; ++s)
      for (int head = 0; head < 2; ++head)
        for (int i = 0; i < 5; ++i) unit.push_back(i == s ? 1 : 0);
  AttentionMask mask = {.rules = masks::everything()};
  mask.key_length = lengths;
  const Values expected = values_of(
      attention(query, key, Variable(tensor_of<double>(unit, {2, 5, 2, 5})), mask).value());
  for (int head = 0; head < 2; ++head) {
    const Values found =
        values_of(dense_attention_weights(query, key, lengths, {head, head + 1}, 1).value());
    Values weights;
    for (std::size_t row = 0; row < 6; ++row)
      for (std::size_t i = 0; i < 5; ++i)
        weights.push_back(expected[(2 * row + static_cast<std::size_t>(head)) * 5 + i]);
    expect_close(found, weights, 1e-14);
  }
}

TEST(CopyProbability, GradientsMatchDifferences) {
  const Tensor source = ids_in({3, 1, 3, 0, 2, 2}, {2, 3});
  const Tensor targets = ids_in({3, 0, 2, -1}, {2, 2});
  expect_gradients(
      [=](const std::vector<Variable>& in) { return copy_probability(in[0], source, targets); },
      {positive({2, 2, 3}, 1)});
}

TEST(PointerGeneratorLosses, GradientsMatchDifferences) {
  const Tensor targets = ids_of({3, 0, -1, 5});
  expect_gradients(
      [=](const std::vector<Variable>& in) {
        return pointer_generator_losses(in[0], in[1], in[2], targets);
      },
      {positive({4}, 1), random_tensor({4}, 2, 2), positive({4}, 3)});
}

TEST(PointerGeneratorLosses, ReducesToOneTermAtExtremeGates) {
  const Tensor targets = ids_of({1, 1, 1, 1, 1});
  const Variable generated = Variable::leaf(tensor_of<double>({2, 2, 2, infinity, infinity}, {5}));
  const Variable gate = Variable::leaf(tensor_of<double>({800, -800, 0, 1, 1}, {5}));
  const Variable copied = Variable::leaf(tensor_of<double>({0.25, 0.25, 0, 0.5, 0}, {5}));
  const Variable losses = pointer_generator_losses(generated, gate, copied, targets);
  const double share = 1 / (1 + std::exp(-1.0));
  expect_close(values_of(losses.value()),
               {2, -std::log(0.25), 2 - std::log(0.5), -std::log(0.5 * (1 - share)), infinity},
               1e-14);
  backward({losses}, {tensor_of<double>({1, 1, 1, 1, 1}, {5})});
  expect_close(values_of(generated.gradient()), {1, 0, 1, 0, 0}, 1e-14);
  for (const double value : values_of(gate.gradient())) EXPECT_TRUE(std::isfinite(value));
  for (const double value : values_of(copied.gradient())) EXPECT_TRUE(std::isfinite(value));
}

TEST(CoverageLosses, GradientsMatchDifferences) {
  // The last row of each sequence is padding and has no loss.
  const Tensor targets = ids_in({3, 0, 1, -1, 2, 2, 4, -1}, {2, 4});
  expect_gradients([=](const std::vector<Variable>& in) { return coverage_losses(in[0], targets); },
                   {positive({2, 4, 3}, 1)});
}

TEST(CoverageLosses, CountsRepeatedAttention) {
  const Tensor attention = tensor_of<double>({1, 0, 0.5, 0.5, 0.25, 0.75, 1, 0}, {1, 4, 2});
  const Tensor targets = ids_in({0, 0, 0, -1}, {1, 4});
  expect_close(values_of(coverage_losses(Variable(attention), targets).value()),
               {0, 0.5, 0.25 + 0.5, 0},
               1e-15);
}

TEST(GuidedAttentionLosses, GradientsMatchDifferences) {
  Values guide = values_of(positive({2, 2, 3}, 5));
  guide[1] = guide[7] = 0;
  for (const GuidedAttentionLoss kind : {GuidedAttentionLoss::cross_entropy,
                                         GuidedAttentionLoss::product,
                                         GuidedAttentionLoss::square})
    for (const double epsilon : {0.0, 1e-3})
      expect_gradients(
          [=, w = tensor_of<double>(guide, {2, 2, 3})](const std::vector<Variable>& in) {
            return guided_attention_losses(in[0], w, kind, epsilon);
          },
          {positive({2, 2, 3}, 1)});
}

// f32 and bf16 inputs against f64.
TEST(DenseAttentionWeights, HasAccumulatorDtype) {
  const Tensor query = random_tensor({1, 2, 1, 3}, 1), key = random_tensor({1, 3, 1, 3}, 2);
  const auto run = [&](DType dtype) {
    const Variable q = Variable::leaf(cast(Variable(query), dtype).value());
    const Variable k = Variable::leaf(cast(Variable(key), dtype).value());
    const Variable attention = dense_attention_weights(q, k, {}, {0, 1}, 1);
    EXPECT_EQ(attention.value().dtype(), accumulator_of(dtype));
    const Tensor targets = ids_in({1, 2}, {1, 2}), source = ids_in({1, 2, 1}, {1, 3});
    const Variable copied = copy_probability(attention, source, targets);
    backward(sum(add(copied, coverage_losses(attention, targets))));
    EXPECT_EQ(q.gradient().dtype(), dtype);
    Values all = values_of(copied.value());
    for (const double value : values_of(k.gradient())) all.push_back(value);
    return all;
  };
  expect_close(run(DType::f32), run(DType::f64), 1e-6);
  expect_close(run(DType::bf16), run(DType::f64), 0.02);
}

}  // namespace
}  // namespace longspan::cross_attention_losses_test
