// Linear and feed-forward layers: gradients against differences, fused against separate ops.
#include "framework/autograd/ops.h"
#include "tests/support/gradient_check.h"

namespace longspan::linear_test {
namespace {

using testing::expect_gradients;
using testing::random_tensor;

TEST(Linear, GradientsMatchDifferences) {
  const auto f = [](const auto& in) { return linear(in[0], in[1], in[2]); };
  expect_gradients(f,
                   {random_tensor({2, 3, 5}, 1), random_tensor({4, 5}, 2), random_tensor({4}, 3)});
}

TEST(Linear, GradientsMatchDifferencesWithoutBias) {
  const auto f = [](const auto& in) { return linear(in[0], in[1], Variable()); };
  expect_gradients(f, {random_tensor({2, 3, 5}, 1), random_tensor({4, 5}, 2)});
  expect_gradients(f, {random_tensor({1, 1}, 1), random_tensor({1, 1}, 2)});
}

TEST(Linear, RejectsWidthMismatch) {
  const Variable weight(random_tensor({4, 3}, 2));
  EXPECT_THROW(linear(weight, Variable(random_tensor({3, 4}, 2)), Variable()), Failure);
}

TEST(Linear, TwoInputGradientsMatchDifferences) {
  for (const bool biased : {true, false}) {
    const auto f = [biased](const auto& in) {
      return linear_of_two(in[0], in[1], in[2], in[3], biased ? in[4] : Variable());
    };
    expect_gradients(f,
                     {random_tensor({2, 3, 5}, 1),
                      random_tensor({4, 5}, 2),
                      random_tensor({2, 3, 2}, 3),
                      random_tensor({4, 2}, 4),
                      random_tensor({4}, 5)});
  }
}

TEST(Linear, TwoInputsEqualSummedProducts) {
  const Variable a(random_tensor({2, 3, 5}, 1)), a_weight(random_tensor({4, 5}, 2));
  const Variable b(random_tensor({2, 3, 2}, 3)), b_weight(random_tensor({4, 2}, 4));
  const Variable bias(random_tensor({4}, 5));
  const Variable sum = add(linear(a, a_weight, bias), linear(b, b_weight, Variable()));
  testing::expect_close(testing::values_of(linear_of_two(a, a_weight, b, b_weight, bias).value()),
                        testing::values_of(sum.value()),
                        1e-14);
  EXPECT_THROW(linear_of_two(a, a_weight, Variable(random_tensor({5, 2}, 3)), b_weight, bias),
               Failure);
}

// x, both weights and both biases of a feed-forward layer.
std::vector<Tensor> feed_forward_inputs() {
  return {random_tensor({2, 3, 5}, 1),
          random_tensor({7, 5}, 2),
          random_tensor({7}, 3),
          random_tensor({4, 7}, 4),
          random_tensor({4}, 5)};
}

Hidden some_hidden(Activation activation, double rate) {
  return {.activation = activation,
          .rate = rate,
          .random = Random(5).child("here"),
          .placement = {.outer_begin = 3, .middle_total = 3, .inner_begin = 4, .inner_total = 11}};
}

TEST(FeedForward, GradientsMatchDifferences) {
  for (const Activation activation :
       {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh})
    for (const double rate : {0.0, 0.4})
      for (const bool biased : {true, false}) {
        SCOPED_TRACE(fmt::format("{} {} {}", static_cast<int>(activation), rate, biased));
        const Hidden hidden = some_hidden(activation, rate);
        const Variable none;
        expect_gradients(
            [&](const auto& in) {
              return feed_forward(
                  in[0], {in[1], biased ? in[2] : none, in[3], biased ? in[4] : none}, hidden);
            },
            feed_forward_inputs());
      }
}

TEST(FeedForward, MatchesSeparateOps) {
  for (const Activation activation : {Activation::relu, Activation::gelu_tanh})
    for (const double rate : {0.0, 0.4}) {
      const Hidden hidden = some_hidden(activation, rate);
      std::vector<testing::Values> found[3];
      for (const int way : {0, 1, 2}) {
        std::vector<Variable> in;
        for (const Tensor& input : feed_forward_inputs()) in.push_back(Variable::leaf(input));
        const Variable y =
            way == 0 ? linear(dropout(activate(activation, linear(in[0], in[1], in[2])),
                                      rate,
                                      hidden.random,
                                      hidden.placement),
                              in[3],
                              in[4])
                     : feed_forward(in[0], {in[1], in[2], in[3], in[4]}, hidden, way == 2);
        // Way 2 computes only gradients, so its value is not read.
        if (way < 2) found[way].push_back(testing::values_of(y.value()));
        backward({y}, {random_tensor(y.shape(), 6)});
        for (const Variable& input : in) found[way].push_back(testing::values_of(input.gradient()));
      }
      EXPECT_EQ(found[1], found[0]);
      found[1].erase(found[1].begin());
      EXPECT_EQ(found[2], found[1]);
    }
}

}  // namespace
}  // namespace longspan::linear_test
