#include "framework/kernels/layer_norm.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan {
namespace {

using namespace longspan::testing;

struct Reference {
  Values y, mean, inverse, dx, dweight, dbias;
};

Reference reference(const Values& x,
                    const Values& weight,
                    const Values& bias,
                    const Values& dy,
                    std::size_t rows,
                    double epsilon) {
  const std::size_t width = weight.size();
  const auto count = static_cast<double>(width);
  Reference result{
      Values(x.size()), Values(rows), Values(rows), Values(x.size()), Values(width), Values(width)};
  for (std::size_t r = 0; r < rows; ++r) {
    double mean = 0, variance = 0, sum = 0, product = 0;
    for (std::size_t i = 0; i < width; ++i) mean += x[r * width + i] / count;
    for (std::size_t i = 0; i < width; ++i)
      variance += (x[r * width + i] - mean) * (x[r * width + i] - mean) / count;
    const double inverse = 1 / std::sqrt(variance + epsilon);
    const auto normal = [&](std::size_t i) { return (x[r * width + i] - mean) * inverse; };
    for (std::size_t i = 0; i < width; ++i) {
      const double above = dy[r * width + i];
      result.y[r * width + i] = weight[i] * normal(i) + bias[i];
      sum += above * weight[i] / count;
      product += above * weight[i] * normal(i) / count;
      result.dweight[i] += above * normal(i);
      result.dbias[i] += above;
    }
    for (std::size_t i = 0; i < width; ++i)
      result.dx[r * width + i] =
          inverse * (dy[r * width + i] * weight[i] - sum - normal(i) * product);
    result.mean[r] = mean;
    result.inverse[r] = inverse;
  }
  return result;
}

template <typename T>
struct Problem {
  using A = Accumulator<T>;

  Problem(std::int64_t row_count, std::int64_t row_width, double centre = 0)
      : rows(row_count),
        width(row_width),
        x(normal_values<T>(rows * width, 1)),
        dy(normal_values<T>(rows * width, 2)),
        weight(normal_values<T>(width, 3)),
        bias(normal_values<T>(width, 4)) {
    for (double& value : x) value = rounded<T>(value + centre);
    forward = {.x = tensor_of<T>(x, {rows, width}),
               .weight = tensor_of<T>(weight, {width}),
               .bias = tensor_of<T>(bias, {width}),
               .y = poisoned<T>({rows, width}),
               .mean = poisoned<A>({rows}),
               .inverse_deviation = poisoned<A>({rows})};
  }
  LayerNormGradient gradient() const {
    return {.x = forward.x,
            .weight = forward.weight,
            .mean = forward.mean,
            .inverse_deviation = forward.inverse_deviation,
            .dy = tensor_of<T>(dy, {rows, width}),
            .dx = poisoned<T>({rows, width}),
            .dweight = tensor_of<A>(Values(weight.size(), 10), {width}),
            .dbias = tensor_of<A>(Values(weight.size(), 20), {width})};
  }

  std::int64_t rows, width;
  Values x, dy, weight, bias;
  LayerNorm forward;
};

template <typename T>
class LayerNormOf : public ::testing::Test {};
TYPED_TEST_SUITE(LayerNormOf, FloatingTypes);

constexpr std::array<std::int64_t, 2> shapes[] = {
    {1, 1}, {0, 5}, {3, 17}, {17, 3}, {1, 1000}, {300, 67}, {65, 128}};

TYPED_TEST(LayerNormOf, EqualsItsFormulaAndAddsToTheGradientsOfTheParameters) {
  for (const auto& [rows, width] : shapes) {
    SCOPED_TRACE(fmt::format("[{}, {}]", rows, width));
    const Problem<TypeParam> problem(rows, width);
    auto expected = reference(
        problem.x, problem.weight, problem.bias, problem.dy, static_cast<std::size_t>(rows), 1e-5);
    layer_norm(backend(), problem.forward);
    constexpr double accurate = std::max(tolerance<Accumulator<TypeParam>>(), 1e-12);
    expect_close(values_of(problem.forward.y), expected.y, tolerance<TypeParam>());
    expect_close(values_of(problem.forward.mean), expected.mean, accurate);
    expect_close(values_of(problem.forward.inverse_deviation), expected.inverse, accurate);
    const auto gradient = problem.gradient();
    layer_norm_backward(backend(), gradient);
    // A width of 1 has the deviation sqrt(epsilon): all terms are large and cancel.
    const double size = width == 1 ? 1e3 : 3;
    expect_close(values_of(gradient.dx), expected.dx, tolerance<TypeParam>(), size);
    for (double& value : expected.dweight) value += 10;
    for (double& value : expected.dbias) value += 20;
    expect_close(values_of(gradient.dweight), expected.dweight, accurate, 10);
    expect_close(values_of(gradient.dbias), expected.dbias, accurate, 10);
    auto added = problem.gradient();
    const Values before = normal_values<TypeParam>(rows * width, 5);
    added.dx = tensor_of<TypeParam>(before, {rows, width});
    added.add = true;
    layer_norm_backward(backend(), added);
    for (std::size_t i = 0; i < before.size(); ++i) expected.dx[i] += before[i];
    expect_close(values_of(added.dx), expected.dx, tolerance<TypeParam>(), size);
  }
}

TYPED_TEST(LayerNormOf, TakesParametersInTheAccumulatorDType) {
  using A = Accumulator<TypeParam>;
  Problem<TypeParam> narrow(5, 33), wide(5, 33);
  wide.forward.weight = tensor_of<A>(wide.weight, {33});
  wide.forward.bias = tensor_of<A>(wide.bias, {33});
  layer_norm(backend(), narrow.forward);
  layer_norm(backend(), wide.forward);
  EXPECT_TRUE(same_bits(narrow.forward.y, wide.forward.y));
}

TYPED_TEST(LayerNormOf, DoesNotDependOnTheNumberOfThreads) {
  const auto run = [](int threads) {
    return with_threads(threads, [] {
      const Problem<TypeParam> problem(1000, 96);
      layer_norm(backend(), problem.forward);
      const auto gradient = problem.gradient();
      layer_norm_backward(backend(), gradient);
      return std::array{problem.forward.y, gradient.dx, gradient.dweight, gradient.dbias};
    });
  };
  const auto one = run(1), three = run(3);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(same_bits(one[i], three[i])) << i;
}

TEST(LayerNorm, ALargeMeanCostsNoDigits) {
  const Problem<float> problem(7, 256, 1000);
  const auto expected = reference(problem.x, problem.weight, problem.bias, problem.dy, 7, 1e-5);
  layer_norm(backend(), problem.forward);
  // The mean itself is rounded to 2^-14 at 1000.
  expect_close(values_of(problem.forward.y), expected.y, 2e-4);
  expect_close(values_of(problem.forward.inverse_deviation), expected.inverse, 1e-6);
}

TEST(LayerNorm, NanStaysInItsRow) {
  Problem<float> problem(3, 20);
  problem.x[25] = nan;
  problem.forward.x = tensor_of<float>(problem.x, {3, 20});
  layer_norm(backend(), problem.forward);
  const Values y = values_of(problem.forward.y);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 20 == 1) << i;
}

TEST(LayerNorm, WrongShapesAreNamed) {
  Problem<float> problem(3, 20);
  problem.forward.weight = poisoned<float>({19});
  EXPECT_THROW(layer_norm(backend(), problem.forward), Failure);
  auto gradient = Problem<BFloat16>(3, 20).gradient();
  gradient.dweight = poisoned<BFloat16>({20});
  EXPECT_THROW(layer_norm_backward(backend(), gradient), Failure);
}

}  // namespace
}  // namespace longspan
