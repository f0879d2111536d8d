#include "framework/autograd/collectives.h"
#include "framework/autograd/losses.h"
#include "tests/support/gradient_check.h"

namespace longspan::crf_test {
namespace {

using namespace longspan::testing;

Tensor tags_of(const std::vector<std::int64_t>& tags, const Shape& shape) {
  return Tensor::from<std::int64_t>(tags, shape, backend_device());
}

VariableFunction losses_of(const Tensor& tags, const Tensor& lengths) {
  return [=](const std::vector<Variable>& in) {
    return crf_losses(in[0], {in[1], in[2], in[3]}, tags, lengths);
  };
}

std::vector<Tensor> random_inputs(const Shape& emissions) {
  const std::int64_t tags = emissions[2];
  return {random_tensor(emissions, 1),
          random_tensor({tags}, 2),
          random_tensor({tags, tags}, 3),
          random_tensor({tags}, 4)};
}

TEST(Crf, GradientsMatchDifferences) {
  const Tensor tags = tags_of({0, 1, 2, 3, 2, 2, 1, -1, 0, -1, -1, -1, -1, -1, -1, -1}, {4, 4});
  expect_gradients(losses_of(tags, ids_of({4, 3, 1, 0})), random_inputs({4, 4, 4}));
}

TEST(Crf, GradientsMatchDifferencesWithoutLengths) {
  const Tensor tags = tags_of({0, 1, 1, 0, 0, 0}, {2, 3});
  expect_gradients(losses_of(tags, {}), random_inputs({2, 3, 2}));
}

// Zero transitions make the loss a softmax per item.
TEST(Crf, EqualsCrossEntropyWithoutTransitions) {
  const Tensor logits = random_tensor({2, 3, 5}, 1);
  const std::vector<std::int64_t> gold = {4, 0, 2, 3, 3, 1};
  const auto zeros = [](const Shape& shape) {
    return Variable(Tensor::zeros(shape, DType::f64, backend_device()));
  };
  const Variable chained = Variable::leaf(logits.clone()), single = Variable::leaf(logits.clone());
  const Variable losses =
      crf_losses(chained, {zeros({5}), zeros({5, 5}), zeros({5})}, tags_of(gold, {2, 3}));
  backward(sum(losses));
  Variable handed = single;
  const Variable each =
      cross_entropy(std::move(handed), tags_of(gold, {6}), {.vocabulary = 5}, Communicator());
  backward(sum(each));
  const Values expected = values_of(each.value());
  expect_close(values_of(losses.value()),
               {expected[0] + expected[1] + expected[2], expected[3] + expected[4] + expected[5]},
               1e-14);
  expect_close(values_of(chained.gradient()), values_of(single.gradient()), 1e-14);
}

// Gradients of bf16 weights are accumulated in f32, as for parameters.
TEST(Crf, SupportsBf16WeightsAndEmissions) {
  const auto narrow = [](std::int64_t count, std::uint64_t seed, const Shape& shape) {
    return tensor_of<BFloat16>(normal_values<BFloat16>(count, seed), shape);
  };
  const Tensor emissions = narrow(24, 1, {2, 4, 3}), start = narrow(3, 2, {3}),
               transitions = narrow(9, 3, {3, 3}), end = narrow(3, 4, {3});
  const Tensor tags = tags_of({0, 1, 2, 0, 2, 2, 0, 0}, {2, 4}), lengths = ids_of({4, 2});
  const auto run = [&](const auto& leaf_of, DType gradients) {
    const CrfWeights weights = {Variable::leaf(leaf_of(start), gradients),
                                Variable::leaf(leaf_of(transitions), gradients),
                                Variable::leaf(leaf_of(end), gradients)};
    const Variable x = Variable::leaf(leaf_of(emissions));
    const Variable losses = crf_losses(x, weights, tags, lengths);
    backward(sum(losses));
    EXPECT_EQ(weights.transitions.gradient().dtype(), gradients);
    return std::vector<Values>{values_of(losses.value()),
                               values_of(weights.start.gradient()),
                               values_of(weights.transitions.gradient()),
                               values_of(weights.end.gradient()),
                               values_of(viterbi_decode(x.value(), weights, lengths).scores)};
  };
  const auto found = run([](const Tensor& x) { return x.clone(); }, DType::f32);
  const auto expected =
      run([](const Tensor& x) { return cast(Variable(x), DType::f64).value(); }, DType::f64);
  for (std::size_t i = 0; i < found.size(); ++i) expect_close(found[i], expected[i], 4e-6);
}

TEST(Crf, ViterbiPathHasMinimalLoss) {
  const std::vector<Tensor> inputs = random_inputs({2, 3, 3});
  const CrfWeights weights = {Variable(inputs[1]), Variable(inputs[2]), Variable(inputs[3])};
  const Tensor lengths = ids_of({3, 2});
  const Tensor best = viterbi_decode(inputs[0], weights, lengths).tags.to_host();
  EXPECT_EQ(best.data<std::int64_t>()[5], -1);
  const auto losses = [&](const Tensor& tags) {
    return values_of(crf_losses(Variable(inputs[0]), weights, tags, lengths).value());
  };
  const Values least = losses(best);
  for (std::int64_t other = 0; other < 27; ++other) {
    const std::vector<std::int64_t> path = {other % 3, other / 3 % 3, other / 9};
    const Values found =
        losses(tags_of({path[0], path[1], path[2], path[0], path[1], path[2]}, {2, 3}));
    for (std::size_t r = 0; r < 2; ++r) EXPECT_GE(found[r], least[r]);
  }
}

}  // namespace
}  // namespace longspan::crf_test
