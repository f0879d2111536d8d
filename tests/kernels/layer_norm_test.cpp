#include "framework/kernels/layer_norm.h"

#include "framework/kernels/dropout.h"
#include "framework/kernels/elementwise.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::layer_norm_test {
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
                    double epsilon,
                    bool centered = true) {
  const std::size_t width = weight.size();
  const auto count = static_cast<double>(width);
  Reference result{
      Values(x.size()), Values(rows), Values(rows), Values(x.size()), Values(width), Values(width)};
  for (std::size_t r = 0; r < rows; ++r) {
    double mean = 0, variance = 0, sum = 0, product = 0;
    for (std::size_t i = 0; centered && i < width; ++i) mean += x[r * width + i] / count;
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
    if (!centered) sum = 0;
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

  Problem(std::int64_t row_count, std::int64_t row_width, double center = 0)
      : rows(row_count),
        width(row_width),
        x(normal_values<T>(rows * width, 1)),
        dy(normal_values<T>(rows * width, 2)),
        weight(normal_values<T>(width, 3)),
        bias(normal_values<T>(width, 4)) {
    for (double& value : x) value = rounded<T>(value + center);
    forward = {.x = tensor_of<T>(x, {rows, width}),
               .weight = tensor_of<T>(weight, {width}),
               .bias = tensor_of<T>(bias, {width}),
               .y = poisoned<T>({rows, width}),
               .mean = poisoned<A>({rows}),
               .rstd = poisoned<A>({rows})};
  }
  LayerNormGradient gradient() const {
    return {.x = forward.x,
            .weight = forward.weight,
            .mean = forward.mean,
            .rstd = forward.rstd,
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
class LayerNormTest : public ::testing::Test {};
TYPED_TEST_SUITE(LayerNormTest, FloatingTypes);

constexpr std::array<std::int64_t, 2> shapes[] = {
    {1, 1}, {0, 5}, {3, 17}, {17, 3}, {1, 1000}, {300, 67}, {65, 128}};

TYPED_TEST(LayerNormTest, UncenteredMatchesRmsNorm) {
  for (const auto& [rows, width] : shapes) {
    SCOPED_TRACE(fmt::format("[{}, {}]", rows, width));
    Problem<TypeParam> problem(rows, width, 0.5);
    problem.forward.centered = false;
    const auto expected = reference(problem.x,
                                    problem.weight,
                                    problem.bias,
                                    problem.dy,
                                    static_cast<std::size_t>(rows),
                                    1e-5,
                                    false);
    layer_norm(backend(), problem.forward);
    expect_close(values_of(problem.forward.y), expected.y, tolerance<TypeParam>());
    expect_close(values_of(problem.forward.mean), expected.mean, 0);
    auto gradient = problem.gradient();
    gradient.centered = false;
    layer_norm_backward(backend(), gradient);
    expect_close(values_of(gradient.dx), expected.dx, tolerance<TypeParam>(), 3);
  }
}

TYPED_TEST(LayerNormTest, MatchesFormulaAndAddsParameterGradients) {
  for (const auto& [rows, width] : shapes) {
    SCOPED_TRACE(fmt::format("[{}, {}]", rows, width));
    const Problem<TypeParam> problem(rows, width);
    auto expected = reference(
        problem.x, problem.weight, problem.bias, problem.dy, static_cast<std::size_t>(rows), 1e-5);
    layer_norm(backend(), problem.forward);
    constexpr double accurate = std::max(tolerance<Accumulator<TypeParam>>(), 1e-12);
    expect_close(values_of(problem.forward.y), expected.y, tolerance<TypeParam>());
    expect_close(values_of(problem.forward.mean), expected.mean, accurate);
    expect_close(values_of(problem.forward.rstd), expected.inverse, accurate);
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

// The last row and its sums exceed the shared memory of a GPU block.
constexpr std::array<std::int64_t, 2> sum_shapes[] = {{6, 17}, {10, 8}, {2, 12292}};

TYPED_TEST(LayerNormTest, ResidualLayerNormMatchesSeparateKernels) {
  using A = Accumulator<TypeParam>;
  for (const auto& [rows, width] : sum_shapes)
    for (const double rate : {0.3, 0.0}) {
      if (rate == 0 && width > 100) continue;
      SCOPED_TRACE(fmt::format("[{}, {}] {}", rows, width, rate));
      const Shape shape = {2, rows / 2, width};
      const auto numbers = [&](std::uint64_t seed) {
        return tensor_of<TypeParam>(normal_values<TypeParam>(rows * width, seed), shape);
      };
      const Tensor base = numbers(6);
      const Problem<TypeParam> apart(rows, width);
      Problem<TypeParam> at_once(rows, width);
      at_once.forward.x = poisoned<TypeParam>(shape);
      Dropout change = {.x = numbers(7),
                        .y = apart.forward.x.reshape(shape),
                        .rate = rate,
                        .random = Random(3).child("change"),
                        .placement = {.middle_total = 50, .inner_total = width + 3}};
      dropout_add(backend(), base, change);
      layer_norm(backend(), apart.forward);
      change.y = at_once.forward.x;
      residual_layer_norm(backend(), base, change, at_once.forward);
      EXPECT_TRUE(same_bits(at_once.forward.x, apart.forward.x));
      constexpr double accurate = std::max(tolerance<A>(), 1e-12);
      const auto expect_same = [&](const Tensor& found, const Tensor& expected, double bound) {
        expect_close(values_of(found), values_of(expected), bound, 3);
      };
      expect_same(at_once.forward.y, apart.forward.y, tolerance<TypeParam>());
      expect_same(at_once.forward.mean, apart.forward.mean, accurate);
      expect_same(at_once.forward.rstd, apart.forward.rstd, accurate);
      LayerNorm in_place = at_once.forward;
      Dropout taken = change;
      in_place.y = taken.x = numbers(7);
      residual_layer_norm(backend(), base, taken, in_place);
      EXPECT_TRUE(same_bits(in_place.y, at_once.forward.y)) << "over the change";
      for (const bool add : {true, false}) {
        if (!add && width > 100) continue;
        auto expected = apart.gradient(), found = at_once.gradient();
        if (add) {
          expected.add = found.add = true;
          expected.dx = numbers(8);
          found.dx = numbers(8);
        }
        layer_norm_backward(backend(), expected);
        Dropout drop = change;
        drop.x = found.dx.reshape(shape);
        drop.y = poisoned<TypeParam>(shape);
        residual_layer_norm_backward(backend(), found, drop);
        expect_same(found.dx, expected.dx, tolerance<TypeParam>());
        expect_same(found.dweight, expected.dweight, accurate);
        expect_same(found.dbias, expected.dbias, accurate);
        const Tensor dropped = drop.y;
        drop.y = poisoned<TypeParam>(shape);
        dropout(backend(), drop);
        EXPECT_TRUE(same_bits(dropped, drop.y));
        // In place: the dropped gradient overwrites dy, or dx does.
        auto over = at_once.gradient();
        over.add = add;
        over.dx = add ? numbers(8) : over.dy;
        drop.x = over.dx.reshape(shape);
        drop.y = add ? over.dy.reshape(shape) : poisoned<TypeParam>(shape);
        residual_layer_norm_backward(backend(), over, drop);
        EXPECT_TRUE(same_bits(over.dx, found.dx));
        EXPECT_TRUE(same_bits(drop.y, dropped));
      }
    }
}

// Wide rows against the formula, and rows whose start does not allow vectorized reads.
TYPED_TEST(LayerNormTest, SupportsWideAndUnalignedRows) {
  for (const auto& [rows, width] : sum_shapes) {
    SCOPED_TRACE(fmt::format("[{}, {}]", rows, width));
    Problem<TypeParam> problem(rows, width);
    auto gradient = problem.gradient();
    const auto elsewhere = [&](const Tensor& tensor) {
      const std::int64_t count = tensor.elements();
      const Tensor large = poisoned<TypeParam>({count + 1});
      const Tensor there = large.slice(1, count + 1).reshape(tensor.shape());
      there.copy_from(tensor);
      return there;
    };
    for (Tensor* tensor : {&problem.forward.x, &problem.forward.y, &gradient.dy, &gradient.dx})
      *tensor = elsewhere(*tensor);
    layer_norm(backend(), problem.forward);
    gradient.x = problem.forward.x;
    layer_norm_backward(backend(), gradient);
    auto expected = reference(
        problem.x, problem.weight, problem.bias, problem.dy, static_cast<std::size_t>(rows), 1e-5);
    for (double& value : expected.dweight) value += 10;
    for (double& value : expected.dbias) value += 20;
    constexpr double accurate = std::max(tolerance<Accumulator<TypeParam>>(), 1e-12);
    // Sequential addition of 12,292 f32 numbers, as on a CPU without vectors, loses some precision.
    const double times = std::is_same_v<TypeParam, float> && width > 1000 ? 5 : 1;
    expect_close(values_of(problem.forward.y), expected.y, tolerance<TypeParam>(), times);
    expect_close(values_of(gradient.dx), expected.dx, tolerance<TypeParam>(), 3 * times);
    expect_close(values_of(gradient.dweight), expected.dweight, accurate, 10 * times);
    expect_close(values_of(gradient.dbias), expected.dbias, accurate, 10 * times);
  }
}

// The streams of a reversible stack are f32, but the layers that read them are narrower.
template <typename Y>
void expect_a_narrower_result() {
  for (const std::int64_t width : {33, 64}) {
    const Problem<float> wide(7, width);
    layer_norm(backend(), wide.forward);
    LayerNorm norm = wide.forward;
    norm.y = poisoned<Y>({7, width});
    layer_norm(backend(), norm);
    const Tensor expected = poisoned<Y>({7, width});
    scale(backend(), 1, wide.forward.y, expected);
    expect_close(values_of(norm.y), values_of(expected), tolerance<Y>());
    const Tensor dy = tensor_of<Y>(normal_values<Y>(7 * width, 9), {7, width});
    auto apart = wide.gradient(), at_once = wide.gradient();
    scale(backend(), 1, dy, apart.dy);
    at_once.dy = dy;
    layer_norm_backward(backend(), apart);
    layer_norm_backward(backend(), at_once);
    for (const auto member :
         {&LayerNormGradient::dx, &LayerNormGradient::dweight, &LayerNormGradient::dbias})
      expect_close(values_of(at_once.*member), values_of(apart.*member), tolerance<float>(), 10);
  }
}

TEST(LayerNorm, NarrowOutputEqualsNormThenCast) {
  expect_a_narrower_result<BFloat16>();
  expect_a_narrower_result<Float16>();
}

TYPED_TEST(LayerNormTest, SupportsParametersInAccumulatorDType) {
  using A = Accumulator<TypeParam>;
  Problem<TypeParam> narrow(5, 33), wide(5, 33);
  wide.forward.weight = tensor_of<A>(wide.weight, {33});
  wide.forward.bias = tensor_of<A>(wide.bias, {33});
  layer_norm(backend(), narrow.forward);
  layer_norm(backend(), wide.forward);
  EXPECT_TRUE(same_bits(narrow.forward.y, wide.forward.y));
}

TYPED_TEST(LayerNormTest, DoesNotDependOnThreadCount) {
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

TEST(LayerNorm, LargeMeanKeepsPrecision) {
  const Problem<float> problem(7, 256, 1000);
  const auto expected = reference(problem.x, problem.weight, problem.bias, problem.dy, 7, 1e-5);
  layer_norm(backend(), problem.forward);
  // The mean itself is rounded to 2^-14 at 1000.
  expect_close(values_of(problem.forward.y), expected.y, 2e-4);
  expect_close(values_of(problem.forward.rstd), expected.inverse, 1e-6);
}

TEST(LayerNorm, NanStaysInItsRow) {
  Problem<float> problem(3, 20);
  problem.x[25] = nan;
  problem.forward.x = tensor_of<float>(problem.x, {3, 20});
  layer_norm(backend(), problem.forward);
  const Values y = values_of(problem.forward.y);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 20 == 1) << i;
}

TEST(LayerNorm, ResidualNanStaysInItsRowInBothPasses) {
  constexpr std::int64_t rows = 3, width = 20;
  const Shape shape = {1, rows, width};
  Problem<float> problem(rows, width);
  problem.x[25] = nan;
  Dropout change = {.x = tensor_of<float>(normal_values<float>(rows * width, 7), shape),
                    .y = problem.forward.x.reshape(shape),
                    .rate = 0.3,
                    .random = Random(1),
                    .placement = {.middle_total = rows, .inner_total = width}};
  residual_layer_norm(backend(), tensor_of<float>(problem.x, shape), change, problem.forward);
  const LayerNormGradient gradient = problem.gradient();
  change.x = gradient.dx.reshape(shape);
  change.y = poisoned<float>(shape);
  change.rate = 0;
  residual_layer_norm_backward(backend(), gradient, change);
  for (const Tensor& found : {problem.forward.y, gradient.dx, change.y}) {
    const Values values = values_of(found);
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(std::isnan(values[i]), i / 20 == 1);
  }
  for (const double value : values_of(gradient.dweight)) EXPECT_TRUE(std::isnan(value));
  for (const double value : values_of(gradient.dbias)) EXPECT_FALSE(std::isnan(value));
}

TEST(LayerNorm, RejectsWrongShapesAndDTypes) {
  Problem<float> problem(3, 20);
  problem.forward.weight = poisoned<float>({19});
  EXPECT_THROW(layer_norm(backend(), problem.forward), Failure);
  auto gradient = Problem<BFloat16>(3, 20).gradient();
  gradient.dweight = poisoned<BFloat16>({20});
  EXPECT_THROW(layer_norm_backward(backend(), gradient), Failure);
  LayerNorm wider = Problem<BFloat16>(3, 20).forward;
  wider.y = poisoned<float>({3, 20});
  EXPECT_THROW(layer_norm(backend(), wider), Failure);
  const LayerNorm norm = Problem<float>(3, 20).forward;
  const Tensor base = poisoned<float>({3, 1, 20});
  Dropout change = {.x = poisoned<float>({3, 1, 20}),
                    .y = norm.x.reshape({3, 1, 20}),
                    .random = Random(1),
                    .placement = {.middle_total = 1, .inner_total = 20}};
  EXPECT_NO_THROW(residual_layer_norm(backend(), base, change, norm));
  change.y = base;
  EXPECT_THROW(residual_layer_norm(backend(), base, change, norm), Failure) << "another output";
}

}  // namespace
}  // namespace longspan::layer_norm_test
