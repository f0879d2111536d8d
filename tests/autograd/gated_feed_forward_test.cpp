// Gated feed-forward layers.
#include "framework/autograd/ops.h"
#include "tests/support/gradient_check.h"

namespace longspan::gated_feed_forward_test {
namespace {

using testing::expect_close;
using testing::random_tensor;
using testing::values_of;

GatedForward weights_of(const std::vector<Variable>& all, bool biases) {
  return {.in = all[1],
          .in_bias = biases ? all[4] : Variable(),
          .up = all[2],
          .up_bias = biases ? all[5] : Variable(),
          .out = all[3],
          .out_bias = biases ? all[6] : Variable()};
}

std::vector<Tensor> inputs_of(bool biases) {
  std::vector<Tensor> inputs = {random_tensor({2, 3, 4}, 1),
                                random_tensor({7, 4}, 2),
                                random_tensor({7, 4}, 3),
                                random_tensor({5, 7}, 4)};
  if (biases)
    for (const std::int64_t width : {7, 7, 5})
      inputs.push_back(random_tensor({width}, static_cast<std::uint64_t>(inputs.size()) + 1));
  return inputs;
}

TEST(GatedFeedForward, MatchesComposedLinearLayers) {
  const std::vector<Tensor> inputs = inputs_of(true);
  std::vector<Variable> all;
  for (const Tensor& input : inputs) all.emplace_back(input);
  const Tensor a = activate(Activation::silu, linear(all[0], all[1], all[4])).value();
  const Tensor b = linear(all[0], all[2], all[5]).value();
  const Tensor h = a.empty_like();
  for (std::int64_t i = 0; i < h.elements(); ++i)
    h.data<double>()[i] = a.data<double>()[i] * b.data<double>()[i];
  expect_close(
      values_of(gated_feed_forward(all[0], weights_of(all, true), {.activation = Activation::silu})
                    .value()),
      values_of(linear(Variable(h), all[3], all[6]).value()),
      1e-13);
}

TEST(GatedFeedForward, GradientsMatchDifferences) {
  for (const Activation activation : {Activation::silu, Activation::gelu, Activation::none})
    for (const bool biases : {false, true})
      for (const double rate : {0.0, 0.4})
        testing::expect_gradients(
            [&](const std::vector<Variable>& all) {
              return gated_feed_forward(
                  all[0],
                  weights_of(all, biases),
                  {.activation = activation, .rate = rate, .random = Random(5)});
            },
            inputs_of(biases),
            {.directions = 1, .elements = 2});
}

TEST(GatedFeedForward, GradientDoesNotDependOnUnreadOutput) {
  const std::vector<Tensor> inputs = inputs_of(true);
  std::vector<testing::Values> gradients;
  for (const bool unread : {false, true}) {
    const std::vector<Variable> leaves = testing::detail::leaves_of(inputs);
    const Variable y = gated_feed_forward(
        leaves[0], weights_of(leaves, true), {.activation = Activation::silu}, unread);
    backward({y}, {random_tensor(y.shape(), 9)});
    testing::Values all;
    for (const Variable& leaf : leaves)
      for (const double value : values_of(leaf.gradient())) all.push_back(value);
    gradients.push_back(all);
  }
  EXPECT_EQ(gradients[0], gradients[1]);
}

}  // namespace
}  // namespace longspan::gated_feed_forward_test
