#include "framework/kernels/matmul.h"

#include <algorithm>

#include "tests/kernels/kernel_testing.h"

namespace longspan::matmul_test {
namespace {

using namespace longspan::testing;

struct Extents {
  std::int64_t m, k, n;
};

// Element (i, j) of a matrix stored as it is or transposed.
double at(const Values& x,
          std::int64_t rows,
          std::int64_t columns,
          bool transposed,
          std::int64_t i,
          std::int64_t j) {
  return x[static_cast<std::size_t>(transposed ? j * rows + i : i * columns + j)];
}

Values product(const Values& a, const Values& b, Extents e, bool transpose_a, bool transpose_b) {
  Values c(static_cast<std::size_t>(e.m * e.n));
  for (std::int64_t i = 0; i < e.m; ++i)
    for (std::int64_t j = 0; j < e.n; ++j)
      for (std::int64_t p = 0; p < e.k; ++p)
        c[static_cast<std::size_t>(i * e.n + j)] +=
            at(a, e.m, e.k, transpose_a, i, p) * at(b, e.k, e.n, transpose_b, p, j);
  return c;
}

double activated(Activation activation, double x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::gelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_tanh:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::relu2:
      return x < 0 ? 0 : x * x;
  }
  return nan;
}

template <typename T>
class MatmulTest : public ::testing::Test {
 protected:
  struct Case {
    Values a, b;
    Matmul matmul;
  };

  template <typename C>
  Case make(Extents e, bool transpose_a, bool transpose_b) {
    Case made{normal_values<T>(e.m * e.k, 1), normal_values<T>(e.k * e.n, 2), {}};
    made.matmul = {.a = tensor_of<T>(made.a, transpose_a ? Shape{e.k, e.m} : Shape{e.m, e.k}),
                   .b = tensor_of<T>(made.b, transpose_b ? Shape{e.n, e.k} : Shape{e.k, e.n}),
                   .c = poisoned<C>({e.m, e.n}),
                   .transpose_a = transpose_a,
                   .transpose_b = transpose_b};
    return made;
  }
};
TYPED_TEST_SUITE(MatmulTest, FloatingTypes);

constexpr Extents shapes[] = {{1, 1, 1},
                              {3, 17, 5},
                              {17, 3, 33},
                              {1, 65, 129},
                              {70, 1, 2},
                              {67, 130, 71},
                              {0, 3, 4},
                              {3, 4, 0}};

TYPED_TEST(MatmulTest, MatchesSumOfProductsInEachOrientation) {
  for (const Extents e : shapes)
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true}) {
        auto made = this->template make<TypeParam>(e, transpose_a, transpose_b);
        matmul(backend(), made.matmul);
        SCOPED_TRACE(fmt::format("{} {} {} {} {}", e.m, e.k, e.n, transpose_a, transpose_b));
        expect_close(values_of(made.matmul.c),
                     product(made.a, made.b, e, transpose_a, transpose_b),
                     tolerance<TypeParam>(),
                     std::sqrt(static_cast<double>(e.k)));
      }
}

TYPED_TEST(MatmulTest, AccumulatorResultIsNotRoundedToInputDType) {
  using A = Accumulator<TypeParam>;
  const Extents e{19, 40, 23};
  auto made = this->template make<A>(e, false, true);
  matmul(backend(), made.matmul);
  expect_close(
      values_of(made.matmul.c), product(made.a, made.b, e, false, true), tolerance<A>(), 6);
}

TYPED_TEST(MatmulTest, AccumulateAddsToBothResultDTypes) {
  using A = Accumulator<TypeParam>;
  const Extents e{9, 33, 18};
  const auto run = [&]<typename C>(TypeTag<C>) {
    auto made = this->template make<C>(e, true, false);
    const Values before = normal_values<C>(e.m * e.n, 3);
    made.matmul.c = tensor_of<C>(before, {e.m, e.n});
    made.matmul.accumulate = true;
    matmul(backend(), made.matmul);
    Values expected = product(made.a, made.b, e, true, false);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
    expect_close(values_of(made.matmul.c), expected, tolerance<C>(), 6);
  };
  run(TypeTag<TypeParam>{});
  run(TypeTag<A>{});
}

TYPED_TEST(MatmulTest, AppliesBiasAndActivation) {
  using A = Accumulator<TypeParam>;
  const Extents e{21, 15, 37};
  const Values bias = normal_values<TypeParam>(e.n, 4);
  for (const auto activation : {Activation::none,
                                Activation::relu,
                                Activation::gelu,
                                Activation::gelu_tanh,
                                Activation::silu})
    for (const bool wide_bias : {false, true}) {
      auto made = this->template make<TypeParam>(e, false, false);
      made.matmul.bias = wide_bias ? tensor_of<A>(bias, {e.n}) : tensor_of<TypeParam>(bias, {e.n});
      made.matmul.activation = activation;
      matmul(backend(), made.matmul);
      Values expected = product(made.a, made.b, e, false, false);
      const double largest = std::abs(
          *std::ranges::max_element(expected, {}, [](double value) { return std::abs(value); }));
      for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i] = activated(activation, expected[i] + bias[i % static_cast<std::size_t>(e.n)]);
      // A GPU may round the product, its sum with the bias and the result, each by half of the
      // tolerance; slopes of activations are below 1.13.
      expect_close(values_of(made.matmul.c), expected, tolerance<TypeParam>(), 0.6 * largest + 1);
    }
}

TYPED_TEST(MatmulTest, AddsBiasToSingleRowOrColumn) {
  for (const Extents e : {Extents{1, 8, 24}, {24, 8, 1}, {1, 3, 1}}) {
    const Values bias = normal_values<TypeParam>(e.n, 4);
    auto made = this->template make<TypeParam>(e, false, false);
    made.matmul.bias = tensor_of<TypeParam>(bias, {e.n});
    matmul(backend(), made.matmul);
    Values expected = product(made.a, made.b, e, false, false);
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] += bias[i % static_cast<std::size_t>(e.n)];
    expect_close(values_of(made.matmul.c), expected, tolerance<TypeParam>(), 5);
  }
}

// Widths that a fused epilogue of a GPU library may support, and one that it may not.
constexpr std::int64_t fused_widths[] = {40, 64, 37};

TYPED_TEST(MatmulTest, WritesPreActivation) {
  for (const std::int64_t n : fused_widths)
    for (const std::int64_t k : {15, 0})
      for (const auto& [biased, wide_bias] : {std::pair(true, false), {true, true}, {false, false}})
        for (const auto activation :
             {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
          const Extents e{21, k, n};
          const Values bias = normal_values<TypeParam>(e.n, 4);
          auto made = this->template make<TypeParam>(e, false, true);
          made.matmul.before = poisoned<TypeParam>({e.m, e.n});
          if (biased)
            made.matmul.bias = wide_bias ? tensor_of<Accumulator<TypeParam>>(bias, {e.n})
                                         : tensor_of<TypeParam>(bias, {e.n});
          made.matmul.activation = activation;
          matmul(backend(), made.matmul);
          Values before = product(made.a, made.b, e, false, true);
          if (biased)
            for (std::size_t i = 0; i < before.size(); ++i)
              before[i] += bias[i % static_cast<std::size_t>(e.n)];
          Values after;
          for (const double x : before) after.push_back(activated(activation, x));
          // A GPU rounds the product before it adds a bias of another dtype, and then the sum.
          constexpr bool on_gpu = std::is_same_v<decltype(backend()), Cuda>;
          constexpr bool narrow = !std::is_same_v<TypeParam, Accumulator<TypeParam>>;
          const double size = on_gpu && narrow && wide_bias ? 15 : 5;
          expect_close(values_of(made.matmul.before), before, tolerance<TypeParam>(), size);
          expect_close(values_of(made.matmul.c), after, tolerance<TypeParam>(), size);
        }
}

TYPED_TEST(MatmulTest, MultipliesByDerivativeAtPreActivation) {
  for (const std::int64_t n : fused_widths)
    for (const auto activation :
         {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
      const Extents e{21, 15, n};
      auto made = this->template make<TypeParam>(e, false, false);
      const Values before = normal_values<TypeParam>(e.m * e.n, 4);
      made.matmul.before = tensor_of<TypeParam>(before, {e.m, e.n});
      made.matmul.activation = activation;
      made.matmul.derivative = true;
      matmul(backend(), made.matmul);
      Values expected = product(made.a, made.b, e, false, false);
      const double step = 1e-5;
      for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i] *=
            (activated(activation, before[i] + step) - activated(activation, before[i] - step)) /
            (2 * step);
      expect_close(values_of(made.matmul.c), expected, std::max(tolerance<TypeParam>(), 1e-9), 5);
      EXPECT_EQ(values_of(made.matmul.before), before);
    }
}

TYPED_TEST(MatmulTest, NanReachesPreActivationAndDerivative) {
  for (const std::int64_t n : fused_widths)
    for (const auto activation :
         {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
      auto made = this->template make<TypeParam>({2, 3, n}, false, false);
      made.a[1] = nan;
      made.matmul.a = tensor_of<TypeParam>(made.a, {2, 3});
      made.matmul.activation = activation;
      made.matmul.before = poisoned<TypeParam>({2, n});
      const auto expect_nan_in_the_first_row = [&](const Tensor& tensor) {
        const Values found = values_of(tensor);
        for (std::size_t i = 0; i < found.size(); ++i)
          EXPECT_EQ(std::isnan(found[i]), i < static_cast<std::size_t>(n));
      };
      matmul(backend(), made.matmul);
      expect_nan_in_the_first_row(made.matmul.before);
      expect_nan_in_the_first_row(made.matmul.c);
      made.matmul.derivative = true;
      made.matmul.before = tensor_of<TypeParam>(normal_values<TypeParam>(2 * n, 4), {2, n});
      matmul(backend(), made.matmul);
      expect_nan_in_the_first_row(made.matmul.c);
    }
}

TYPED_TEST(MatmulTest, EmptySumGivesZeroBiasOrPreviousValue) {
  auto made = this->template make<TypeParam>({2, 0, 3}, false, false);
  matmul(backend(), made.matmul);
  EXPECT_EQ(values_of(made.matmul.c), Values(6, 0.0));
  made.matmul.accumulate = true;
  made.matmul.c = tensor_of<TypeParam>({1, 2, 3, 4, 5, 6}, {2, 3});
  matmul(backend(), made.matmul);
  EXPECT_EQ(values_of(made.matmul.c), (Values{1, 2, 3, 4, 5, 6}));
  made.matmul.accumulate = false;
  made.matmul.bias = tensor_of<TypeParam>({-1, 2, 3}, {3});
  made.matmul.activation = Activation::relu;
  matmul(backend(), made.matmul);
  EXPECT_EQ(values_of(made.matmul.c), (Values{0, 2, 3, 0, 2, 3}));
}

TYPED_TEST(MatmulTest, NanReachesProductAndEachActivation) {
  for (const auto activation : {Activation::none,
                                Activation::relu,
                                Activation::gelu,
                                Activation::gelu_tanh,
                                Activation::silu}) {
    auto made = this->template make<TypeParam>({2, 3, 20}, false, false);
    made.a[1] = nan;
    made.matmul.a = tensor_of<TypeParam>(made.a, {2, 3});
    made.matmul.activation = activation;
    matmul(backend(), made.matmul);
    const Values found = values_of(made.matmul.c);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(std::isnan(found[i]), i < 20) << "activation " << static_cast<int>(activation);
  }
}

TYPED_TEST(MatmulTest, AddsSumsOfTransposedFactor) {
  using A = Accumulator<TypeParam>;
  const auto run = [&]<typename C>(Extents e, bool accumulate, TypeTag<C>) {
    SCOPED_TRACE(fmt::format("{} {} {} {}", e.m, e.k, e.n, accumulate));
    auto made = this->template make<C>(e, true, false);
    const Values before = normal_values<A>(e.m, 5);
    Values sums = before;
    Values expected = product(made.a, made.b, e, true, false);
    for (std::int64_t p = 0; p < e.k; ++p)
      for (std::int64_t i = 0; i < e.m; ++i)
        sums[static_cast<std::size_t>(i)] += at(made.a, e.m, e.k, true, i, p);
    if (accumulate) {
      const Values there = normal_values<C>(e.m * e.n, 3);
      made.matmul.c = tensor_of<C>(there, {e.m, e.n});
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += there[i];
    }
    made.matmul.accumulate = accumulate;
    made.matmul.a_sums = tensor_of<A>(before, {e.m});
    matmul(backend(), made.matmul);
    expect_close(values_of(made.matmul.c), expected, tolerance<C>(), 9);
    expect_close(values_of(made.matmul.a_sums), sums, tolerance<A>(), 9);
  };
  for (const std::int64_t n : fused_widths)
    for (const bool accumulate : {false, true}) {
      run({23, 70, n}, accumulate, TypeTag<A>{});
      run({23, 70, n}, accumulate, TypeTag<TypeParam>{});
    }
  for (const Extents e : {Extents{5, 0, 8}, {5, 3, 0}, {0, 3, 8}}) run(e, false, TypeTag<A>{});
}

TYPED_TEST(MatmulTest, TreatsLeadingAxesAsRows) {
  const Extents e{12, 5, 7};
  auto made = this->template make<TypeParam>(e, false, false);
  made.matmul.a = made.matmul.a.reshape({2, 6, 5});
  made.matmul.c = made.matmul.c.reshape({3, 4, 7});
  matmul(backend(), made.matmul);
  expect_close(values_of(made.matmul.c),
               product(made.a, made.b, e, false, false),
               tolerance<TypeParam>(),
               3);
}

TEST(Matmul, RejectsWrongShapesAndDTypes) {
  const auto of = [](const Shape& shape) { return poisoned<float>(shape); };
  const auto message = [](const Matmul& product) -> std::string {
    try {
      matmul(backend(), product);
    } catch (const Failure& failure) {
      return failure.what();
    }
    return "no failure";
  };
  EXPECT_EQ(message({.a = of({2, 3}), .b = of({4, 5}), .c = of({2, 5})}),
            "matmul: expected [m, k] x [k, n] = [m, n], found f32 [2, 3], f32 [4, 5] and f32 [2, "
            "5]");
  EXPECT_EQ(message({.a = of({2, 3}), .b = of({3, 5}), .c = of({2, 5}), .transpose_b = true}),
            "matmul: expected [m, k] x [k, n] = [m, n], found f32 [2, 3], f32 [3, 5] transposed "
            "and f32 [2, 5]");
  EXPECT_EQ(message({.a = of({2, 3}), .b = poisoned<BFloat16>({3, 5}), .c = of({2, 5})}),
            "matmul: expected a and b of one floating-point dtype, and c of it or its accumulator, "
            "found f32, bf16 and f32");
  EXPECT_EQ(message({.a = of({2, 3}), .b = of({3, 5}), .c = of({2, 5}), .bias = of({4})}),
            "matmul: expected a bias [5] of f32 or its accumulator, found f32 [4]");
  const auto narrow = [](const Shape& shape) { return poisoned<BFloat16>(shape); };
  EXPECT_EQ(
      message({.a = narrow({2, 3}), .b = narrow({3, 5}), .c = of({2, 5}), .bias = narrow({5})}),
      "matmul: expected a bias [5] of f32 or its accumulator, found bf16 [5]");
  EXPECT_EQ(
      message(
          {.a = of({2, 3}), .b = of({3, 5}), .c = of({2, 5}), .accumulate = true, .bias = of({5})}),
      "matmul: accumulate does not support bias or activation");
  Matmul summed = {.a = of({3, 2}), .b = of({3, 5}), .c = of({2, 5}), .transpose_a = true};
  summed.a_sums = of({3});
  const std::string expected =
      "matmul: expected a_sums [2] of f32 with a transposed a and no bias or activation, found f32 "
      "[3]";
  EXPECT_EQ(message(summed), expected);
  summed.a_sums = of({2});
  EXPECT_EQ(message(summed), "no failure");
  summed.activation = Activation::relu;
  EXPECT_NE(message(summed), "no failure");
}

TEST(Matmul, Float64DoesNotDependOnThreadCount) {
  const auto run = [](int threads) {
    return with_threads(threads, [] {
      const Tensor a = tensor_of<double>(normal_values<double>(100 * 90, 1), {100, 90});
      const Tensor b = tensor_of<double>(normal_values<double>(90 * 200, 2), {90, 200});
      const Tensor c = poisoned<double>({100, 200});
      matmul(backend(), {.a = a, .b = b, .c = c});
      return c;
    });
  };
  const Tensor one = run(1);
  EXPECT_TRUE(same_bits(one, run(2)));
  EXPECT_TRUE(same_bits(one, run(3)));
}

}  // namespace
}  // namespace longspan::matmul_test
