// Layer norms, with and without a residual sum: gradients against differences.
#include "framework/autograd/ops.h"
#include "tests/support/gradient_check.h"

namespace longspan::layer_norm_test {
namespace {

using testing::expect_gradients;
using testing::random_tensor;

TEST(LayerNorm, GradientsMatchDifferences) {
  const auto f = [](const auto& in) { return layer_norm(in[0], in[1], in[2], 1e-5); };
  expect_gradients(f, {random_tensor({2, 3, 7}, 1), random_tensor({7}, 2), random_tensor({7}, 3)});
}

// The norm's gradient is added to one that another op shares, in either order.
TEST(LayerNorm, AccumulatesIntoSharedGradients) {
  const auto norm = [](const auto& in) { return layer_norm(in[0], in[1], in[2], 1e-5); };
  const std::vector<Tensor> inputs = {
      random_tensor({2, 3, 7}, 1), random_tensor({7}, 2), random_tensor({7}, 3)};
  expect_gradients([&](const auto& in) { return add(norm(in), in[0]); }, inputs);
  expect_gradients([&](const auto& in) { return add(in[0], norm(in)); }, inputs);
  expect_gradients(
      [&](const auto& in) {
        const Variable x = add(in[0], in[0]);
        return add(add(x, norm(std::vector{x, in[1], in[2]})), x);
      },
      inputs);
}

TEST(ResidualLayerNorm, MatchesDropoutAddAndLayerNorm) {
  const ShardPlacement placement = {
      .outer_begin = 3, .middle_total = 3, .inner_begin = 4, .inner_total = 11};
  const Random random = Random(5).child("here");
  const std::vector<Tensor> inputs = {random_tensor({2, 3, 7}, 1),
                                      random_tensor({2, 3, 7}, 4),
                                      random_tensor({7}, 2),
                                      random_tensor({7}, 3)};
  for (const double rate : {0.0, 0.4}) {
    const auto both = [&](const auto& in) {
      Variable x = in[1];
      return residual_layer_norm(in[0], std::move(x), rate, random, placement, in[2], in[3], 1e-5);
    };
    expect_gradients([&](const auto& in) { return both(in).norm; }, inputs);
    const Variable gain(inputs[2]), shift(inputs[3]);
    expect_gradients(
        [&](const auto& in) {
          return both(std::vector{in[0], in[1], gain, shift}).sum;
        },
        {inputs[0], inputs[1]});
    expect_gradients(
        [&](const auto& in) {
          const auto [sum, norm] = both(in);
          return add(add(norm, sum), add(sum, in[0]));
        },
        inputs);
    // Applied twice, as in a stack.
    expect_gradients(
        [&](const auto& in) {
          const auto [sum, norm] = both(in);
          return both(std::vector{sum, norm, in[2], in[3]}).norm;
        },
        inputs);
    std::vector<Variable> in;
    for (const Tensor& input : inputs) in.emplace_back(input);
    const auto [sum, norm] = both(in);
    const Variable apart = dropout_add(in[0], in[1], rate, random, placement);
    EXPECT_TRUE(testing::same_bits(sum.value(), apart.value()));
    EXPECT_TRUE(testing::same_bits(norm.value(), layer_norm(apart, in[2], in[3], 1e-5).value()));
    // An unshared input is overwritten by the norm.
    Variable own(inputs[1].clone());
    const std::byte* const place = own.value().bytes();
    const ResidualNorm over =
        residual_layer_norm(in[0], std::move(own), rate, random, placement, in[2], in[3], 1e-5);
    EXPECT_EQ(over.norm.value().bytes(), place);
    EXPECT_TRUE(testing::same_bits(over.norm.value(), norm.value()));
    expect_gradients(
        [&](const auto& x) {
          Variable twice = add(x[1], x[1]);
          return residual_layer_norm(
                     x[0], std::move(twice), rate, random, placement, x[2], x[3], 1e-5)
              .norm;
        },
        inputs);
  }
}

}  // namespace
}  // namespace longspan::layer_norm_test
