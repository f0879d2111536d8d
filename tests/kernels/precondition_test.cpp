#include "framework/kernels/precondition.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan::precondition_test {
namespace {

using namespace longspan::testing;

template <typename T>
class PreconditionTest : public ::testing::Test {
 protected:
  static Values gradient(std::int64_t count, std::int64_t step) {
    return normal_values<T>(count, static_cast<std::uint64_t>(100 + step));
  }
};
using WeightTypes = ::testing::Types<double, float>;
TYPED_TEST_SUITE(PreconditionTest, WeightTypes);

constexpr std::int64_t counts[] = {0, 1, 17, 20001};

TYPED_TEST(PreconditionTest, AdamWritesDirectionToGradient) {
  for (const bool corrects : {false, true})
    for (const auto count : counts) {
      const Values weight = normal_values<TypeParam>(count, 1);
      Values first(weight.size()), second(weight.size()), direction(weight.size());
      AdamPrecondition step{.weight = tensor_of<TypeParam>(weight, {count}),
                            .gradient = {},
                            .first = tensor_of<TypeParam>(first, {count}),
                            .second = tensor_of<TypeParam>(second, {count}),
                            .gradient_factor = 0.5,
                            .beta1 = 0.8,
                            .beta2 = 0.95,
                            .epsilon = 1e-3,
                            .weight_decay = 0.1,
                            .corrects_bias = corrects};
      for (step.step = 1; step.step <= 3; ++step.step) {
        const Values gradient = this->gradient(count, step.step);
        step.gradient = tensor_of<TypeParam>(gradient, {count});
        adam_precondition(backend(), step);
        const auto number = static_cast<double>(step.step);
        for (std::size_t i = 0; i < weight.size(); ++i) {
          const double g = 0.5 * gradient[i];
          first[i] = 0.8 * first[i] + 0.2 * g;
          second[i] = 0.95 * second[i] + 0.05 * g * g;
          const double m = corrects ? first[i] / (1 - std::pow(0.8, number)) : first[i];
          const double v = corrects ? second[i] / (1 - std::pow(0.95, number)) : second[i];
          direction[i] = m / (std::sqrt(v) + 1e-3) + 0.1 * weight[i];
        }
        expect_close(values_of(step.gradient), direction, tolerance<TypeParam>(), 10);
      }
      expect_close(values_of(step.weight), weight, 0);
    }
}

TYPED_TEST(PreconditionTest, MomentumMatchesFormulaWithAndWithoutNesterov) {
  for (const bool nesterov : {false, true})
    for (const auto count : counts) {
      Values buffer(static_cast<std::size_t>(count)), direction(buffer.size());
      MomentumStep step{.gradient = {},
                        .buffer = tensor_of<TypeParam>(buffer, {count}),
                        .gradient_factor = 2,
                        .momentum = 0.9,
                        .nesterov = nesterov};
      for (std::int64_t number = 1; number <= 3; ++number) {
        const Values gradient = this->gradient(count, number);
        step.gradient = tensor_of<TypeParam>(gradient, {count});
        momentum_step(backend(), step);
        for (std::size_t i = 0; i < buffer.size(); ++i) {
          buffer[i] = 0.9 * buffer[i] + 2 * gradient[i];
          direction[i] = nesterov ? 2 * gradient[i] + 0.9 * buffer[i] : buffer[i];
        }
        expect_close(values_of(step.gradient), direction, tolerance<TypeParam>(), 4);
      }
    }
}

TYPED_TEST(PreconditionTest, RmsDividesByRootOfMeanSquare) {
  for (const auto count : counts) {
    Values second(static_cast<std::size_t>(count)), direction(second.size());
    RmsPrecondition step{.gradient = {},
                         .second = tensor_of<TypeParam>(second, {count}),
                         .gradient_factor = 2,
                         .epsilon = 1e-3};
    for (const double beta2 : {0.0, 0.6}) {
      const Values gradient = this->gradient(count, beta2 > 0 ? 2 : 1);
      step.gradient = tensor_of<TypeParam>(gradient, {count});
      step.beta2 = beta2;
      rms_precondition(backend(), step);
      for (std::size_t i = 0; i < second.size(); ++i) {
        const double g = 2 * gradient[i];
        second[i] = beta2 * second[i] + (1 - beta2) * (g * g + 1e-3);
        direction[i] = g / std::sqrt(second[i]);
      }
      expect_close(values_of(step.gradient), direction, tolerance<TypeParam>(), 4);
    }
  }
}

struct Range {
  std::int64_t first, end;
};

// Two 3 x 5 matrices and possible shards: all, nothing, and pieces that begin and end within lines
// and matrices.
TYPED_TEST(PreconditionTest, AddsSquaresOfAnyShardToRowsAndColumns) {
  constexpr std::int64_t rows = 3, columns = 5, all = 2 * rows * columns;
  const Values whole = this->gradient(all, 1);
  for (const auto& [first, end] : {Range{0, all}, Range{4, 4}, {6, 8}, {0, 5}, {3, 19}, {15, 29}}) {
    const Values part(whole.begin() + first, whole.begin() + end);
    Values by_row(2 * rows, 0.5), by_column(2 * columns, 0.25);
    const MatrixPart piece{.elements = tensor_of<TypeParam>(part, {std::ssize(part)}),
                           .first = first,
                           .rows = rows,
                           .columns = columns,
                           .by_row = tensor_of<double>(by_row, {2 * rows}),
                           .by_column = tensor_of<double>(by_column, {2 * columns})};
    add_squares(backend(), 2, 0.01, piece);
    for (std::int64_t i = first; i < end; ++i) {
      const double value = 2 * whole[static_cast<std::size_t>(i)];
      const std::int64_t row = i / columns;
      by_row[static_cast<std::size_t>(row)] += value * value + 0.01;
      by_column[static_cast<std::size_t>(row / rows * columns + i % columns)] +=
          value * value + 0.01;
    }
    expect_close(values_of(piece.by_row), by_row, 1e-13);
    expect_close(values_of(piece.by_column), by_column, 1e-13);
    scale_lines(backend(), 3, piece);
    Values scaled;
    for (std::int64_t i = first; i < end; ++i) {
      const std::int64_t row = i / columns;
      scaled.push_back(3 * whole[static_cast<std::size_t>(i)] *
                       by_row[static_cast<std::size_t>(row)] *
                       by_column[static_cast<std::size_t>(row / rows * columns + i % columns)]);
    }
    expect_close(values_of(piece.elements), scaled, tolerance<TypeParam>());
  }
}

TYPED_TEST(PreconditionTest, SquaresDoNotDependOnThreadCount) {
  constexpr std::int64_t rows = 211, columns = 307;
  const Values whole = this->gradient(rows * columns, 1);
  const Tensor elements = tensor_of<TypeParam>(whole, {rows * columns});
  const auto sums = [&] {
    const MatrixPart part{.elements = elements,
                          .rows = rows,
                          .columns = columns,
                          .by_row = tensor_of<double>(Values(rows), {rows}),
                          .by_column = tensor_of<double>(Values(columns), {columns})};
    add_squares(backend(), 1, 0, part);
    return part;
  };
  const MatrixPart several = sums();
  const MatrixPart one = with_threads(1, sums);
  EXPECT_TRUE(same_bits(several.by_row, one.by_row));
  EXPECT_TRUE(same_bits(several.by_column, one.by_column));
  double total = 0;
  for (const double value : whole) total += value * value;
  for (const Tensor& found : {several.by_row, several.by_column}) {
    double sum = 0;
    for (const double value : values_of(found)) sum += value;
    EXPECT_NEAR(sum, total, 1e-9 * total);
  }
}

TYPED_TEST(PreconditionTest, ApplyUpdateDecaysAndSteps) {
  for (const auto count : counts) {
    Values weight = normal_values<TypeParam>(count, 1);
    const Values direction = normal_values<TypeParam>(count, 2);
    const ApplyUpdate update{.weight = tensor_of<TypeParam>(weight, {count}),
                             .direction = tensor_of<TypeParam>(direction, {count}),
                             .compute = poisoned<BFloat16>({count}),
                             .decay_factor = 0.75,
                             .rate = 0.5};
    apply_update(backend(), update);
    for (std::size_t i = 0; i < weight.size(); ++i)
      weight[i] = 0.75 * weight[i] - 0.5 * direction[i];
    const Values found = values_of(update.weight), compute = values_of(update.compute);
    expect_close(found, weight, tolerance<TypeParam>());
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(compute[i], rounded<BFloat16>(found[i])) << i;
  }
}

TEST(Precondition, RejectsWrongDTypesAndLengths) {
  const Tensor three = poisoned<float>({3}), two = poisoned<float>({2});
  EXPECT_THROW(momentum_step(backend(), {.gradient = three, .buffer = two}), Failure);
  EXPECT_THROW(rms_precondition(backend(), {.gradient = three, .second = two}), Failure);
  EXPECT_THROW(apply_update(backend(), {.weight = three, .direction = two}), Failure);
  EXPECT_THROW(
      adam_precondition(
          backend(),
          {.weight = three, .gradient = three, .first = three, .second = three, .step = 0}),
      Failure);
  const MatrixPart too_much{.elements = three,
                            .first = 4,
                            .rows = 2,
                            .columns = 3,
                            .by_row = poisoned<double>({2}),
                            .by_column = poisoned<double>({3})};
  EXPECT_THROW(add_squares(backend(), 1, 0, too_much), Failure);
  MatrixPart narrow = too_much;
  narrow.first = 0;
  narrow.by_row = poisoned<float>({2});
  EXPECT_THROW(scale_lines(backend(), 1, narrow), Failure);
}

}  // namespace
}  // namespace longspan::precondition_test
