// Cases near the limits of float16: weights far below the largest, and gradients of any magnitude.
// Compares sums, because inputs and outputs are rounded.
#include <gtest/gtest.h>

#include "tests/kernels/attention_dense.h"

namespace longspan::testing::attention_float16_test {
namespace {

// Sets each element of [1, rows, 1, features] to f(row, feature).
template <typename F>
void set(const Tensor& tensor, F f) {
  const std::int64_t features = tensor.shape()[3];
  for (std::int64_t e = 0; e < tensor.elements(); ++e)
    tensor.data<Float16>()[e] = Float16(static_cast<float>(f(e / features, e % features)));
}

// A float16 case whose gradients accumulate in f32 from 0.
AttentionGradient make_sums(AttentionCase c) {
  c.dim = c.value_dim = 32;
  c.dtype = DType::f16;
  const Device device = fresh_device();
  AttentionGradient g = make_attention(c, device);
  g.add = true;
  for (Tensor* gradient : {&g.dquery, &g.dkey, &g.dvalue})
    *gradient = filled(gradient->shape(), DType::f32, 0, device);
  for (Tensor* gradient : {&g.dposition_key,
                           &g.dcontent_bias,
                           &g.dposition_bias,
                           &g.dkey_table,
                           &g.dvalue_table,
                           &g.dspan})
    if (gradient->defined()) gradient->zero();
  return g;
}

// The tolerance is relative to the largest expected value.
void expect_near(const Numbers& found, const Numbers& expected, double start, const char* what) {
  ASSERT_EQ(found.size(), expected.size());
  double largest = 0;
  for (const double w : expected) largest = std::max(largest, std::abs(w - start));
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i] - start, 4e-3 * largest) << what << " " << i;
}

void expect_sums(const AttentionGradient& g) {
  const AttentionResult found = run_attention(g), expected = dense_attention(g);
  expect_near(found.out, expected.out, 0, "out");
  expect_near(found.log_sum_exp, expected.log_sum_exp, 0, "log-sum-exp");
  expect_near(found.dquery, expected.dquery, 0, "dquery");
  expect_near(found.dkey, expected.dkey, 0, "dkey");
  expect_near(found.dvalue, expected.dvalue, 0, "dvalue");
  // The reference starts from 0.5.
  expect_near(found.dposition_key, expected.dposition_key, 0.5, "dposition_key");
  expect_near(found.dcontent_bias, expected.dcontent_bias, 0.5, "dcontent_bias");
  expect_near(found.dposition_bias, expected.dposition_bias, 0.5, "dposition_bias");
  expect_near(found.dkey_table, expected.dkey_table, 0.5, "dkey_table");
  expect_near(found.dvalue_table, expected.dvalue_table, 0.5, "dvalue_table");
  expect_near(found.dspan, expected.dspan, 0.5, "dspan");
}

// One key scores 18.3 above the others, whose weights are below 2^-26. Its value is zero, so only
// the small weights contribute. The dropout factor, 50, does not extend the range.
TEST(AttentionFloat16, SmallWeightsContributeToOutputAndGradients) {
  for (const double dropout : {0.0, 0.98}) {
    const AttentionGradient g = make_sums(
        {.time = 2, .keys = 130, .causal = false, .scale = 1, .dropout = dropout, .seed = 3});
    set(g.forward.query, [](auto, auto c) { return c == 0 ? 4 : 0; });
    set(g.forward.key, [](auto j, auto c) { return c == 0 && j == 0 ? 18.3 / 4 : 0; });
    set(g.forward.value, [](auto j, auto) { return j == 0 ? 0 : 1000; });
    const AttentionResult found = run_attention(g), expected = dense_attention(g);
    expect_near(found.out, expected.out, 0, "out");
    const auto light = [](const Numbers& all) { return Numbers(all.begin() + 32, all.end()); };
    expect_near(light(found.dvalue), light(expected.dvalue), 0, "dvalue");
    expect_near(light(found.dkey), light(expected.dkey), 0, "dkey");
  }
}

// Keys beyond the span score 25.5 above those within, so the floor leaves them a comparable weight.
TEST(AttentionFloat16, KeysBeyondSpanDoNotHideKeysWithin) {
  const AttentionGradient g =
      make_sums({.time = 70, .keys = 140, .heads = 1, .span = 1, .scale = 1, .seed = 4});
  g.forward.span->span.data<float>()[0] = 20;
  AttentionGradient near = g;
  near.forward.span = SpanTerm{.span = g.forward.span->span, .ramp = 4, .first = 0, .floor = 1e-12};
  set(near.forward.query, [](auto, auto c) { return c == 0 ? 4 : 0; });
  set(near.forward.key, [](auto j, auto c) { return c == 0 && j < 40 ? 25.5 / 4 : 0; });
  set(near.forward.value, [](auto j, auto) { return j < 40 ? 0 : 1000; });
  const AttentionResult found = run_attention(near), expected = dense_attention(near);
  expect_near(found.out, expected.out, 0, "out");
  expect_near(found.log_sum_exp, expected.log_sum_exp, 0, "log-sum-exp");
  EXPECT_GT(expected.out.back(), 100);
}

// The ramp of the only visible key of a row is 2^-20, or 0 if the distance is rounded first. All
// outputs use the same value: with a large score, a 0 in only one of them gives NaN.
TEST(AttentionFloat16, OutputAgreesWithLogSumExpAtSpanEnd) {
  AttentionGradient g =
      make_sums({.time = 73, .keys = 73, .heads = 1, .span = 1, .scale = 1, .seed = 4});
  g.forward.span->span.data<float>()[0] = 8 + 0x1p-20F;
  g.forward.span = SpanTerm{.span = g.forward.span->span, .ramp = 1, .first = 0, .floor = 0};
  g.forward.mask.rules = masks::window(9, -9);
  set(g.forward.query, [](auto, auto c) { return c == 0 ? 12 : 0; });
  set(g.forward.key, [](auto, auto c) { return c == 0 ? 12 : 0; });
  set(g.forward.value, [](auto, auto) { return 3; });
  const AttentionResult found = run_attention(g);
  for (std::size_t i = 9; i < found.log_sum_exp.size(); ++i) {
    const bool counts = std::isfinite(found.log_sum_exp[i]);
    if (counts) {
      EXPECT_NEAR(found.log_sum_exp[i], 144 - 20 * std::log(2), 0.1) << i;
    }
    for (std::size_t c = 0; c < 32; ++c)
      ASSERT_NEAR(found.out[i * 32 + c], counts ? 3 : 0, 0.01) << i;
  }
}

// Score gradients beyond 65504 whose products with small queries and keys are in range, and score
// gradients below the smallest float16.
TEST(AttentionFloat16, SupportsScoreGradientsOfAnyMagnitude) {
  const AttentionCase cases[] = {
      {.time = 70, .keys = 140, .dropout = 0.2},
      {.time = 70, .keys = 70, .relative = true, .span = 2},
      {.time = 70, .keys = 130, .causal = false, .key_table = true, .value_table = true},
  };
  const std::pair<double, double> sizes[] = {{0x1p9, 0x1p8}, {0x1p-6, 0x1p-18}};
  for (AttentionCase c : cases)
    for (const auto& [of_values, of_gradients] : sizes) {
      c.spread = 0.1;
      c.seed = 7;
      SCOPED_TRACE(c.to_string());
      const AttentionGradient g = make_sums(c);
      const auto fill = [](const Tensor& tensor, double size, const Random& random) {
        // Later rows are larger, so that the scaling unit changes between tiles.
        set(tensor, [&](auto row, auto f) {
          return size * (row < 64 ? 1 : 8) *
                 random.normal_at(static_cast<std::uint64_t>(row * 32 + f));
        });
      };
      fill(g.forward.value, of_values, Random(5));
      fill(g.dout, of_gradients, Random(6));
      expect_sums(g);
    }
}

}  // namespace
}  // namespace longspan::testing::attention_float16_test
