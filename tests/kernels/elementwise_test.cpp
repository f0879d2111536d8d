#include "framework/kernels/elementwise.h"

#include <numeric>

#include "tests/kernels/kernel_testing.h"

namespace longspan::elementwise_test {
namespace {

using namespace longspan::testing;

template <typename T>
class ElementwiseTest : public ::testing::Test {};
TYPED_TEST_SUITE(ElementwiseTest, FloatingTypes);

constexpr std::int64_t counts[] = {0, 1, 3, 17, 1000, 40003};

TYPED_TEST(ElementwiseTest, AddMatchesSumAndSupportsInPlace) {
  for (const auto count : counts) {
    const Values a = normal_values<TypeParam>(count, 1), b = normal_values<TypeParam>(count, 2);
    Values expected;
    for (std::size_t i = 0; i < a.size(); ++i) expected.push_back(rounded<TypeParam>(a[i] + b[i]));
    const Tensor left = tensor_of<TypeParam>(a, {count}), right = tensor_of<TypeParam>(b, {count});
    const Tensor out = poisoned<TypeParam>({count});
    add(backend(), left, right, out);
    expect_close(values_of(out), expected, tolerance<TypeParam>());
    add(backend(), left, right, left);
    EXPECT_TRUE(same_bits(left, out));
    add(backend(), tensor_of<TypeParam>(a, {count}), right, right);
    EXPECT_TRUE(same_bits(right, out));
  }
}

TYPED_TEST(ElementwiseTest, ScaleAndAccumulateSupportAllDTypePairs) {
  const auto run = [&]<typename Y>(TypeTag<Y>) {
    constexpr double relative = tolerance<Y>();
    for (const std::int64_t count : {1, 3, 17, 1000}) {
      const Values x = normal_values<TypeParam>(count, 1), y = normal_values<Y>(count, 2);
      Values scaled, summed;
      for (std::size_t i = 0; i < x.size(); ++i) {
        scaled.push_back(-0.25 * x[i]);
        summed.push_back(y[i] - 0.25 * x[i]);
      }
      const Tensor from = tensor_of<TypeParam>(x, {count}), to = poisoned<Y>({count});
      scale(backend(), -0.25, from, to);
      expect_close(values_of(to), scaled, relative, 1e-3);
      const Tensor sum = tensor_of<Y>(y, {count});
      accumulate(backend(), -0.25, from, sum);
      expect_close(values_of(sum), summed, relative);
    }
  };
  run(TypeTag<double>{});
  run(TypeTag<float>{});
  run(TypeTag<BFloat16>{});
  run(TypeTag<Float16>{});
}

TYPED_TEST(ElementwiseTest, WideningAndNarrowingPreservesBits) {
  const Tensor x = tensor_of<TypeParam>({1, -0.0, 65504, infinity, -infinity, 1.0 / 3}, {6});
  const Tensor wide = poisoned<double>({6}), back = poisoned<TypeParam>({6});
  scale(backend(), 1, x, wide);
  scale(backend(), 1, wide, back);
  EXPECT_TRUE(same_bits(x, back));
  const Tensor not_a_number = tensor_of<TypeParam>({nan}, {1});
  scale(backend(), 1, not_a_number, poisoned<double>({1}));
  EXPECT_TRUE(std::isnan(values_of(not_a_number)[0]));
}

TYPED_TEST(ElementwiseTest, ScaleAndAddRowsAddsTableToEachBlock) {
  using A = Accumulator<TypeParam>;
  for (const std::int64_t width : {1, 3, 17}) {
    const Values x = normal_values<TypeParam>(3 * 5 * width, 1);
    const Values table = normal_values<TypeParam>(5 * width, 2);
    Values expected;
    for (std::size_t i = 0; i < x.size(); ++i)
      expected.push_back(2.5 * x[i] + table[i % table.size()]);
    const Tensor from = tensor_of<TypeParam>(x, {3, 5, width});
    const Tensor to = poisoned<TypeParam>({3, 5, width});
    scale_and_add_rows(backend(), 2.5, from, tensor_of<A>(table, {5, width}), to);
    expect_close(values_of(to), expected, tolerance<TypeParam>());
    scale_and_add_rows(backend(), 2.5, from, tensor_of<TypeParam>(table, {5, width}), from);
    EXPECT_TRUE(same_bits(from, to));
  }
}

TYPED_TEST(ElementwiseTest, CopyRowsCopiesOrAddsOnlyGivenRows) {
  const std::int64_t width = 17;
  const Values x = normal_values<TypeParam>(3 * 4 * width, 1);
  const Values y = normal_values<TypeParam>(3 * 6 * width, 2);
  for (const bool adds : {false, true}) {
    Values expected = y;
    for (std::int64_t o = 0; o < 3; ++o)
      for (std::int64_t t = 0; t < 2; ++t)
        for (std::int64_t c = 0; c < width; ++c) {
          double& to = expected[static_cast<std::size_t>((o * 6 + 3 + t) * width + c)];
          to = (adds ? to : 0) + x[static_cast<std::size_t>((o * 4 + 1 + t) * width + c)];
        }
    const Tensor to = tensor_of<TypeParam>(y, {3, 6, width});
    const Tensor from = tensor_of<TypeParam>(x, {3, 4, width});
    copy_rows(backend(), from, 1, to, 3, 2, adds);
    expect_close(values_of(to), expected, adds ? tolerance<TypeParam>() : 0);
    copy_rows(backend(), from, 4, to, 0, 0, adds);
    expect_close(values_of(to), expected, adds ? tolerance<TypeParam>() : 0);
  }
}

TYPED_TEST(ElementwiseTest, AddsColumnSumsInBothDTypes) {
  using A = Accumulator<TypeParam>;
  constexpr double accurate = std::max(tolerance<A>(), 1e-12);
  for (const std::int64_t rows : {0, 1, 3, 34, 1030})
    for (const std::int64_t width : {1, 3, 17, 130}) {
      const Values x = normal_values<TypeParam>(rows * width, 1);
      Values expected(static_cast<std::size_t>(width), 4);
      for (std::size_t i = 0; i < x.size(); ++i) expected[i % expected.size()] += x[i];
      const Tensor wide = tensor_of<A>(Values(expected.size(), 4), {width});
      const Tensor narrow = tensor_of<TypeParam>(Values(expected.size(), 4), {width});
      add_column_sums(backend(), tensor_of<TypeParam>(x, {rows, width}), wide);
      add_column_sums(backend(), tensor_of<TypeParam>(x, {rows, width}), narrow);
      expect_close(values_of(wide), expected, accurate, std::sqrt(static_cast<double>(rows)));
      expect_close(values_of(narrow), expected, tolerance<TypeParam>(), 3);
    }
}

Tensor one_element(DType dtype) { return Tensor::zeros({1}, dtype, backend_device()); }
double sum_of(const Tensor& x) {
  const Tensor total = one_element(DType::f64);
  sum(backend(), x, 1, total);
  return total.item();
}
double squares_of(const Tensor& x) {
  const Tensor total = one_element(DType::f64);
  sum_of_squares(backend(), {x}, total);
  return total.item();
}

TYPED_TEST(ElementwiseTest, ReductionsAreAccurateAndIndependentOfThreads) {
  for (const auto count : counts) {
    const Values x = normal_values<TypeParam>(count, 1);
    const Tensor tensor = tensor_of<TypeParam>(x, {count});
    const auto total = [&] { return sum_of(tensor); };
    const auto squares = [&] { return squares_of(tensor); };
    EXPECT_NEAR(total(), std::accumulate(x.begin(), x.end(), 0.0), 1e-10);
    const double expected = std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
    EXPECT_NEAR(squares(), expected, 1e-13 * expected);
    EXPECT_EQ(with_threads(1, total), with_threads(3, total));
    EXPECT_EQ(with_threads(1, squares), with_threads(3, squares));
  }
}

TEST(Elementwise, SumsSquaresOfSeveralTensors) {
  std::vector<Tensor> tensors = {tensor_of<BFloat16>({3, 4}, {2}), tensor_of<float>({}, {0})};
  double expected = 25;
  for (const std::int64_t count : {20001, 1, 8192}) {
    const Values x = normal_values<double>(count, 7);
    tensors.push_back(tensor_of<double>(x, {count}));
    expected = std::inner_product(x.begin(), x.end(), x.begin(), expected);
  }
  const Tensor total = one_element(DType::f64);
  sum_of_squares(backend(), tensors, total);
  EXPECT_NEAR(total.item(), expected, 1e-13 * expected);
  sum_of_squares(backend(), {}, total);
  EXPECT_EQ(total.item(), 0);
}

TYPED_TEST(ElementwiseTest, SumsPropagateNanAndInfinity) {
  for (const double odd : {nan, infinity, -infinity}) {
    Values x(20000, 1.0);
    x[12345] = odd;
    const Tensor tensor = tensor_of<TypeParam>(x, {20000});
    EXPECT_FALSE(std::isfinite(sum_of(tensor)));
    EXPECT_FALSE(std::isfinite(squares_of(tensor)));
    EXPECT_EQ(std::isnan(squares_of(tensor)), std::isnan(odd));
  }
}

TYPED_TEST(ElementwiseTest, ScalesAndRoundsSumsOnce) {
  const Values x = normal_values<TypeParam>(1000, 1);
  const double expected = 0.3 * std::accumulate(x.begin(), x.end(), 0.0);
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor total = one_element(dtype);
    sum(backend(), tensor_of<TypeParam>(x, {1000}), 0.3, total);
    EXPECT_NEAR(total.item(), expected, dtype == DType::f64 ? 1e-11 : 1e-6);
    sum(backend(), tensor_of<TypeParam>({}, {0}), 0.3, total);
    EXPECT_EQ(total.item(), 0);
  }
}

TEST(Elementwise, RejectsNarrowOrLargeSumOutputs) {
  const Tensor x = tensor_of<float>({1, 2}, {2});
  EXPECT_THROW(sum(backend(), x, 1, one_element(DType::bf16)), Failure);
  EXPECT_THROW(sum_of_squares(backend(), {x}, x), Failure);
}

TEST(Elementwise, SumOfSquaresDoesNotOverflow) {
  EXPECT_EQ(squares_of(tensor_of<float>({0x1p100, 0x1p100}, {2})), 0x1p201);
}

TEST(Elementwise, ColumnSumsDoNotDependOnThreadCount) {
  const auto run = [](int threads) {
    return with_threads(threads, [] {
      const Tensor x = tensor_of<float>(normal_values<float>(5000 * 70, 1), {5000, 70});
      const Tensor out = Tensor::zeros({70}, DType::f32, backend_device());
      add_column_sums(backend(), x, out);
      return out;
    });
  };
  EXPECT_TRUE(same_bits(run(1), run(3)));
}

TEST(Elementwise, RejectsWrongShapes) {
  const auto of = [](const Shape& shape) { return poisoned<float>(shape); };
  EXPECT_THROW(add(backend(), of({3}), of({4}), of({3})), Failure);
  EXPECT_THROW(accumulate(backend(), 1, of({3}), of({4})), Failure);
  EXPECT_THROW(scale(backend(), 1, of({3}), of({4})), Failure);
  EXPECT_THROW(scale_and_add_rows(backend(), 1, of({2, 3, 4}), of({4, 3}), of({2, 3, 4})), Failure);
  EXPECT_THROW(copy_rows(backend(), of({2, 3, 4}), 2, of({2, 3, 4}), 0, 2, false), Failure);
  EXPECT_THROW(copy_rows(backend(), of({2, 3, 4}), 0, of({2, 3, 5}), 0, 2, false), Failure);
  EXPECT_THROW(add_column_sums(backend(), of({2, 3}), of({2})), Failure);
}

}  // namespace
}  // namespace longspan::elementwise_test
