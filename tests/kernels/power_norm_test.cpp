#include "framework/kernels/power_norm.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan::power_norm_test {
namespace {

using namespace longspan::testing;

template <typename T>
class PowerNormTest : public ::testing::Test {};
TYPED_TEST_SUITE(PowerNormTest, FloatingTypes);

constexpr double tolerance_of(DType dtype) {
  return dtype == DType::f64 ? 1e-13 : (dtype == DType::f32 ? 1e-5 : 2e-2);
}

struct Features {
  Values inverse, weight, bias, slope;

  explicit Features(std::int64_t width)
      : inverse(normal_values<double>(width, 1)),
        weight(normal_values<double>(width, 2)),
        bias(normal_values<double>(width, 3)),
        slope(normal_values<double>(width, 4)) {}
};

TYPED_TEST(PowerNormTest, MatchesFormulaForwardAndBackward) {
  using T = TypeParam;
  using A = Accumulator<T>;
  for (const auto& [rows, width] : {std::pair<std::int64_t, std::int64_t>{5, 7}, {150, 3}}) {
    const Features of(width);
    const Values x = normal_values<T>(rows * width, 5), dy = normal_values<T>(rows * width, 6);
    Values counted;
    for (std::int64_t r = 0; r < rows; ++r) counted.push_back(r % 3 == 1 ? 0 : 1);
    const auto feature = [&, n = width](const Values& values) { return tensor_of<A>(values, {n}); };
    const Shape shape = {rows, width};
    const Tensor y = poisoned<T>(shape);
    power_norm(backend(),
               {.x = tensor_of<T>(x, shape),
                .inverse = feature(of.inverse),
                .weight = feature(of.weight),
                .bias = feature(of.bias),
                .y = y});
    Values expected, moved, still;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t c = i % static_cast<std::size_t>(width);
      const double normed = x[i] * of.inverse[c];
      expected.push_back(normed * of.weight[c] + of.bias[c]);
      still.push_back(of.inverse[c] * dy[i] * of.weight[c]);
      moved.push_back(still.back() - of.inverse[c] * counted[i / static_cast<std::size_t>(width)] *
                                         of.slope[c] * normed);
    }
    const double tolerance = tolerance_of(DTypeOf<T>::value);
    expect_close(values_of(y), expected, tolerance);
    PowerNormGradient call = {.x = tensor_of<T>(x, shape),
                              .inverse = feature(of.inverse),
                              .weight = feature(of.weight),
                              .dy = tensor_of<T>(dy, shape),
                              .dx = poisoned<T>(shape)};
    power_norm_backward(backend(), call);
    expect_close(values_of(call.dx), still, tolerance);
    call.counted = tensor_of<A>(counted, {rows});
    call.slope = feature(of.slope);
    power_norm_backward(backend(), call);
    expect_close(values_of(call.dx), moved, tolerance);
    call.dx = tensor_of<T>(x, shape);
    call.add = true;
    power_norm_backward(backend(), call);
    for (std::size_t i = 0; i < x.size(); ++i) moved[i] += x[i];
    expect_close(values_of(call.dx), moved, tolerance);
  }
}

TYPED_TEST(PowerNormTest, SumsOnlyCountedRows) {
  using T = TypeParam;
  using A = Accumulator<T>;
  constexpr std::int64_t rows = 150, width = 5;
  const Values a = normal_values<T>(rows * width, 1), b = normal_values<float>(rows * width, 2);
  Values counted, all(width, 2), some(width, 2);
  for (std::int64_t r = 0; r < rows; ++r) counted.push_back(r % 4 == 0 ? 0 : 1);
  for (std::size_t i = 0; i < a.size(); ++i) {
    all[i % width] += a[i] * b[i];
    some[i % width] += counted[i / width] * a[i] * b[i];
  }
  ProductSums call = {.a = tensor_of<T>(a, {rows, width}),
                      .b = tensor_of<float>(b, {rows, width}),
                      .sums = tensor_of<A>(Values(width, 2), {width})};
  add_product_sums(backend(), call);
  expect_close(values_of(call.sums), all, 1e-5);
  call.counted = tensor_of<A>(counted, {rows});
  call.sums = tensor_of<A>(Values(width, 2), {width});
  add_product_sums(backend(), call);
  expect_close(values_of(call.sums), some, 1e-5);
}

// Rows 1 to 3 of 4 have positions 2 to 4.
TEST(PowerNorm, CountsRowsBeforeLength) {
  CountedRows call = {
      .counted = tensor_of<float>(Values(8, 7), {2, 4}), .begin = 1, .end = 4, .position = 2};
  count_rows(backend(), call);
  EXPECT_EQ(values_of(call.counted), (Values{7, 1, 1, 1, 7, 1, 1, 1}));
  call.length = ids_of({4, 0});
  count_rows(backend(), call);
  EXPECT_EQ(values_of(call.counted), (Values{7, 1, 1, 0, 7, 0, 0, 0}));
}

TEST(PowerNorm, AveragesMatchPaper) {
  const auto tensor = [](const Values& values) {
    return tensor_of<double>(values, {std::ssize(values)});
  };
  PowerStatisticsUpdate step = {.square = tensor({1, 4}),
                                .slope = tensor({0.5, -1}),
                                .squares = tensor({6, 3}),
                                .products = tensor({9, 0}),
                                .count = tensor({3}),
                                .decay = 0.75,
                                .epsilon = 0};
  update_power_statistics(backend(), step);
  // The normed rows have mean squares 2 / 1 and 1 / 4.
  expect_close(values_of(step.square), {0.75 + 0.5, 3 + 0.25}, 1e-14);
  expect_close(values_of(step.slope), {0.5 * (1 - 0.5) + 0.75, -1 + 0.0625}, 1e-14);
  step.divided_by_batch = true;
  step.slope = tensor({0.5, -1});
  update_power_statistics(backend(), step);
  expect_close(values_of(step.slope), {0.375 + 0.75, -0.75}, 1e-14);
  const Values square = values_of(step.square), slope = values_of(step.slope);
  step.count = tensor({0});
  update_power_statistics(backend(), step);
  EXPECT_EQ(values_of(step.square), square);
  EXPECT_EQ(values_of(step.slope), slope);
  const Tensor means = tensor({6, 3});
  power_mean(backend(), means, tensor({3}), means);
  EXPECT_EQ(values_of(means), (Values{2, 1}));
  power_mean(backend(), means, tensor({0}), means);
  EXPECT_EQ(values_of(means), (Values{1, 1}));  // a batch of padding leaves the means unchanged
  power_inverse(backend(), tensor({3.5, -0.25}), 0.5, means);
  EXPECT_EQ(values_of(means), (Values{0.5, 2}));
}

}  // namespace
}  // namespace longspan::power_norm_test
