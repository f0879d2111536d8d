#include "framework/kernels/cross_entropy.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan::cross_entropy_test {
namespace {

using namespace longspan::testing;

template <typename T>
class CrossEntropyTest : public ::testing::Test {
 protected:
  // Statistics of columns [begin, begin + valid) stored in `width` columns.
  static CrossEntropyStatistics statistics(const Values& logits,
                                           const std::vector<std::int64_t>& targets,
                                           std::int64_t width,
                                           std::int64_t begin,
                                           std::int64_t valid) {
    using A = Accumulator<T>;
    const auto rows = std::ssize(targets);
    CrossEntropyStatistics result{.logits = tensor_of<T>(logits, {rows, width}),
                                  .targets = ids_of(targets),
                                  .vocabulary_begin = begin,
                                  .valid_width = valid,
                                  .maximum = poisoned<A>({rows}),
                                  .sum = poisoned<A>({rows}),
                                  .target = poisoned<A>({rows}),
                                  .total = poisoned<A>({rows})};
    cross_entropy_statistics(backend(), result);
    return result;
  }
};
TYPED_TEST_SUITE(CrossEntropyTest, FloatingTypes);

TYPED_TEST(CrossEntropyTest, StatisticsMatchFormulas) {
  constexpr double accurate = std::max(tolerance<Accumulator<TypeParam>>(), 1e-12);
  // At the last two widths a GPU thread has many columns, in rows with and without vectorized
  // reads.
  for (const std::int64_t width : {1, 3, 17, 300, 9001, 9004}) {
    const std::int64_t rows = width < 1000 ? 150 : 4, begin = 40, valid = width - width / 3;
    Values logits = normal_values<TypeParam>(rows * width, 1, 4);
    std::vector<std::int64_t> targets;
    for (std::int64_t r = 0; r < rows; ++r) targets.push_back(r % 7 == 0 ? -1 : 2 * r);
    Values maximum, sum, target, total;
    for (std::int64_t r = 0; r < rows; ++r) {
      double* row = logits.data() + r * width;
      maximum.push_back(*std::max_element(row, row + valid));
      double exponentials = 0, all = 0;
      for (std::int64_t v = 0; v < valid; ++v) {
        exponentials += std::exp(row[v] - maximum.back());
        all += row[v];
      }
      const std::int64_t local = targets[static_cast<std::size_t>(r)] - begin;
      sum.push_back(exponentials);
      total.push_back(all);
      target.push_back(local >= 0 && local < valid ? row[local] : 0);
      // Padding must not count, whatever its values.
      std::fill(row + valid, row + width, nan);
    }
    const auto found = this->statistics(logits, targets, width, begin, valid);
    EXPECT_EQ(values_of(found.maximum), maximum);
    EXPECT_EQ(values_of(found.target), target);
    expect_close(
        values_of(found.sum), sum, accurate, std::max(1., static_cast<double>(valid) / 200));
    const double largest_sum =
        4 * std::sqrt(static_cast<double>(std::max<std::int64_t>(valid, 300)));
    expect_close(values_of(found.total), total, accurate, largest_sum);
  }
}

TYPED_TEST(CrossEntropyTest, GradientMatchesFormulaAndIsZeroInPadding) {
  using A = Accumulator<TypeParam>;
  for (const std::int64_t width : {1, 3, 17, 300, 9001, 9004}) {
    const std::int64_t rows = width < 1000 ? 90 : 4, begin = 20, valid = width - width / 3;
    Values logits = normal_values<TypeParam>(rows * width, 1, 2);
    const Values log_sum_exp = normal_values<A>(rows, 2), scale = normal_values<A>(rows, 3);
    std::vector<std::int64_t> targets;
    Values expected;
    for (std::int64_t r = 0; r < rows; ++r) {
      targets.push_back(r % 5 == 0 ? -100 : r);
      for (std::int64_t v = 0; v < width; ++v) {
        const auto row = static_cast<std::size_t>(r);
        double& logit = logits[static_cast<std::size_t>(r * width + v)];
        const double value = scale[row] * (std::exp(logit - log_sum_exp[row]) -
                                           (begin + v == targets[row] ? 0.9 : 0) - 0.1 / 300);
        expected.push_back(targets[row] < 0 || v >= valid ? 0 : value);
        if (v >= valid) logit = nan;
      }
    }
    const CrossEntropyGradient gradient{.logits = tensor_of<TypeParam>(logits, {rows, width}),
                                        .targets = ids_of(targets),
                                        .vocabulary_begin = begin,
                                        .valid_width = valid,
                                        .log_sum_exp = tensor_of<A>(log_sum_exp, {rows}),
                                        .scale = tensor_of<A>(scale, {rows}),
                                        .on_target = 0.9,
                                        .off_target = 0.1 / 300};
    cross_entropy_backward(backend(), gradient);
    expect_close(values_of(gradient.logits), expected, tolerance<TypeParam>());
  }
}

TYPED_TEST(CrossEntropyTest, ExtremeLogitsGiveExactLossAndGradient) {
  using A = Accumulator<TypeParam>;
  const double high = rounded<TypeParam>(1e4);
  const auto found = this->statistics({high, -high, 0, -high, -high, high}, {0, 1}, 3, 0, 3);
  EXPECT_EQ(values_of(found.maximum), (Values{high, high}));
  EXPECT_EQ(values_of(found.sum), (Values{1, 1}));
  EXPECT_EQ(values_of(found.target), (Values{high, -high}));
  const CrossEntropyGradient gradient{.logits = found.logits,
                                      .targets = found.targets,
                                      .valid_width = 3,
                                      .log_sum_exp = tensor_of<A>({high, high}, {2}),
                                      .scale = tensor_of<A>({1, 1}, {2})};
  cross_entropy_backward(backend(), gradient);
  EXPECT_EQ(values_of(found.logits), (Values{0, 0, 0, 0, -1, 1}));
}

TYPED_TEST(CrossEntropyTest, DistinguishesInfinityNanAndNoColumns) {
  const Values logits = {-infinity, -infinity, 1, -infinity, nan, 2, infinity, 0};
  const auto found = this->statistics(logits, {-1, -1, -1, -1}, 2, 0, 2);
  const Values maximum = values_of(found.maximum), sum = values_of(found.sum);
  EXPECT_EQ(maximum[0], -infinity);
  EXPECT_EQ(sum[0], 0);
  EXPECT_EQ(maximum[1], 1);
  EXPECT_EQ(sum[1], 1);
  EXPECT_TRUE(std::isnan(sum[2]));
  EXPECT_TRUE(std::isnan(sum[3]));
  const auto none = this->statistics({1, 2}, {1}, 2, 0, 0);
  EXPECT_EQ(values_of(none.maximum), Values{-infinity});
  EXPECT_EQ(values_of(none.sum), Values{0});
  EXPECT_EQ(values_of(none.target), Values{0});
  const auto no_rows = this->statistics({}, {}, 2, 0, 2);
  EXPECT_EQ(no_rows.sum.elements(), 0);
}

TEST(CrossEntropy, ShardStatisticsCombineToFullLoss) {
  const std::int64_t vocabulary = 50;
  const Values logits = normal_values<double>(vocabulary, 5, 3);
  double maximum = -infinity, sum = 0, target = 0;
  std::vector<CrossEntropyStatistics> parts;
  for (const std::int64_t begin : {0, 17, 34}) {
    const std::int64_t valid = std::min<std::int64_t>(17, vocabulary - begin);
    Values part(17, nan);
    std::copy_n(logits.begin() + begin, valid, part.begin());
    CrossEntropyStatistics statistics{.logits = tensor_of<double>(part, {1, 17}),
                                      .targets = ids_of({33}),
                                      .vocabulary_begin = begin,
                                      .valid_width = valid,
                                      .maximum = poisoned<double>({1}),
                                      .sum = poisoned<double>({1}),
                                      .target = poisoned<double>({1})};
    cross_entropy_statistics(backend(), statistics);
    maximum = std::max(maximum, values_of(statistics.maximum)[0]);
    target += values_of(statistics.target)[0];
    parts.push_back(statistics);
  }
  for (const auto& part : parts)
    sum += values_of(part.sum)[0] * std::exp(values_of(part.maximum)[0] - maximum);
  double expected = 0;
  for (const double logit : logits) expected += std::exp(logit);
  EXPECT_NEAR(std::log(sum) + maximum - target, std::log(expected) - logits[33], 1e-12);
}

TEST(CrossEntropy, RejectsWrongShapes) {
  CrossEntropyGradient gradient{.logits = poisoned<float>({2, 3}),
                                .targets = ids_of({0, 1}),
                                .valid_width = 4,
                                .log_sum_exp = poisoned<float>({2}),
                                .scale = poisoned<float>({2})};
  EXPECT_THROW(cross_entropy_backward(backend(), gradient), Failure);
  gradient.valid_width = 3;
  gradient.targets = ids_of({0});
  EXPECT_THROW(cross_entropy_backward(backend(), gradient), Failure);
}

}  // namespace
}  // namespace longspan::cross_entropy_test
