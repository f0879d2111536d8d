#include "framework/kernels/random_features.h"

#include <algorithm>

#include "framework/kernels/rows.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::random_features_test {
namespace {

using namespace longspan::testing;

constexpr std::int64_t rows = 5, width = 6, count = 9;

struct Expected {
  Values out, shift, dproduct, dx;

  Expected(const RandomFeatures& map, const Values& x, const Values& product, const Values& dout) {
    const std::int64_t features = map.features(count);
    const double norm = 1 / std::sqrt(static_cast<double>(count));
    for (std::int64_t r = 0; r < rows; ++r) {
      double squares = 0, top = -infinity, sum = 0;
      for (std::int64_t c = 0; c < width; ++c)
        squares += std::pow(map.scale * at(x, r * width + c), 2) / 2;
      for (std::int64_t c = 0; c < count; ++c)
        top = std::max(top, map.scale * at(product, r * count + c));
      const double shifted = map.shifts_by_projection ? top : top - squares;
      shift.push_back(shifted);
      Values made(static_cast<std::size_t>(features));
      for (std::int64_t c = 0; c < count; ++c) {
        const double u = map.scale * at(product, r * count + c);
        const double from = at(dout, r * features + c);
        double du = 0;
        if (map.map == RandomMap::softmax) {
          made[static_cast<std::size_t>(c)] = std::exp(u - squares - shifted) * norm;
          du = map.log_gradients ? from : from * made[static_cast<std::size_t>(c)];
        } else if (map.map == RandomMap::relu) {
          made[static_cast<std::size_t>(c)] = std::max(u, 0.0) + map.floor;
          du = u > 0 ? from : 0;
        } else {
          made[static_cast<std::size_t>(c)] = std::sin(u) * norm;
          made[static_cast<std::size_t>(count + c)] = std::cos(u) * norm;
          du = (from * std::cos(u) - at(dout, r * features + count + c) * std::sin(u)) * norm;
        }
        sum += du;
        dproduct.push_back(map.scale * du);
      }
      out.insert(out.end(), made.begin(), made.end());
      for (std::int64_t c = 0; c < width; ++c)
        dx.push_back(map.map == RandomMap::softmax
                         ? -map.scale * map.scale * sum * at(x, r * width + c)
                         : 0);
    }
  }
  static double at(const Values& values, std::int64_t i) {
    return values[static_cast<std::size_t>(i)];
  }
};

template <typename T>
class RandomFeaturesTest : public ::testing::Test {};
TYPED_TEST_SUITE(RandomFeaturesTest, FloatingTypes);

TYPED_TEST(RandomFeaturesTest, MatchesDefinitionAndGradient) {
  using T = TypeParam;
  using A = Accumulator<T>;
  const RandomFeatures maps[] = {{.map = RandomMap::softmax, .scale = 0.7},
                                 {.map = RandomMap::softmax, .shifts_by_projection = true},
                                 {.map = RandomMap::softmax, .scale = 0.7, .log_gradients = true},
                                 {.map = RandomMap::relu, .scale = 0.7, .floor = 0.125},
                                 {.map = RandomMap::trigonometric, .scale = 0.7}};
  for (const RandomFeatures& map : maps) {
    const std::int64_t features = map.features(count);
    const Values x = normal_values<T>(rows * width, 1, 0.5);
    const Values product = normal_values<A>(rows * count, 2);
    const Values dout = normal_values<T>(rows * features, 3);
    const Expected expected(map, x, product, dout);
    const RandomFeaturesCall call = {.map = map,
                                     .x = tensor_of<T>(x, {rows, width}),
                                     .product = tensor_of<A>(product, {rows, count}),
                                     .out = poisoned<T>({rows, features}),
                                     .shift = poisoned<A>({rows})};
    random_features(backend(), call);
    expect_close(values_of(call.out), expected.out, tolerance<T>());
    if (map.map == RandomMap::softmax)
      expect_close(values_of(call.shift), expected.shift, tolerance<A>());
    const RandomFeaturesGradient gradient = {.map = map,
                                             .x = call.x,
                                             .out = call.out,
                                             .dout = tensor_of<T>(dout, {rows, features}),
                                             .dproduct = poisoned<T>({rows, count}),
                                             .dx = poisoned<T>({rows, width})};
    random_features_backward(backend(), gradient);
    expect_close(values_of(gradient.dproduct), expected.dproduct, 2 * tolerance<T>());
    expect_close(values_of(gradient.dx), expected.dx, 4 * tolerance<T>());
  }
}

TYPED_TEST(RandomFeaturesTest, ScaleColumnsSupportsFactorsOfBothDTypes) {
  using T = TypeParam;
  const Values x = normal_values<T>(rows * width, 1);
  const auto run = [&]<typename F>(TypeTag<F>) {
    const Values factors = normal_values<F>(width, 2);
    const Tensor y = poisoned<T>({rows, width});
    scale_columns(backend(), tensor_of<T>(x, {rows, width}), tensor_of<F>(factors, {width}), y);
    Values expected, squares;
    for (std::size_t i = 0; i < x.size(); ++i) {
      expected.push_back(x[i] * factors[i % width]);
      squares.push_back(x[i] * x[i]);
    }
    expect_close(values_of(y), expected, tolerance<T>());
    const Tensor same = tensor_of<T>(x, {rows, width});
    multiply(backend(), same, same, same);
    expect_close(values_of(same), squares, tolerance<T>());
  };
  run(TypeTag<T>());
  run(TypeTag<Accumulator<T>>());
}

}  // namespace
}  // namespace longspan::random_features_test
