#include "framework/kernels/optimizer.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan::optimizer_test {
namespace {

using namespace longspan::testing;

template <typename T>
class OptimizerTest : public ::testing::Test {
 protected:
  // The gradient of a step.
  static Values gradient(std::int64_t count, std::int64_t step) {
    return normal_values<T>(count, static_cast<std::uint64_t>(100 + step));
  }
};
using WeightTypes = ::testing::Types<double, float>;
TYPED_TEST_SUITE(OptimizerTest, WeightTypes);

constexpr std::int64_t counts[] = {0, 1, 3, 17, 20001};

TYPED_TEST(OptimizerTest, AdamMatchesFormulaOverSteps) {
  for (const bool decoupled : {false, true})
    for (const auto count : counts) {
      Values weight = normal_values<TypeParam>(count, 1), first(weight.size()),
             second(weight.size());
      AdamUpdate update{.range = {.weight = tensor_of<TypeParam>(weight, {count}),
                                  .gradient = {},
                                  .gradient_factor = 0.5,
                                  .learning_rate = 0.01,
                                  .weight_decay = 0.1},
                        .first = tensor_of<TypeParam>(first, {count}),
                        .second = tensor_of<TypeParam>(second, {count}),
                        .beta1 = 0.8,
                        .beta2 = 0.95,
                        .epsilon = 1e-6,
                        .decoupled = decoupled};
      for (std::int64_t step = 1; step <= 5; ++step) {
        const Values gradient = this->gradient(count, step);
        update.step = step;
        update.range.gradient = tensor_of<TypeParam>(gradient, {count});
        adam_update(backend(), update);
        for (std::size_t i = 0; i < weight.size(); ++i) {
          const double g = 0.5 * gradient[i] + (decoupled ? 0 : 0.1 * weight[i]);
          first[i] = 0.8 * first[i] + 0.2 * g;
          second[i] = 0.95 * second[i] + 0.05 * g * g;
          const double mean = first[i] / (1 - std::pow(0.8, static_cast<double>(step)));
          const double square = second[i] / (1 - std::pow(0.95, static_cast<double>(step)));
          if (decoupled) weight[i] *= 1 - 0.01 * 0.1;
          weight[i] -= 0.01 * mean / (std::sqrt(square) + 1e-6);
        }
      }
      expect_close(values_of(update.range.weight), weight, tolerance<TypeParam>());
      expect_close(values_of(update.first), first, tolerance<TypeParam>());
      expect_close(values_of(update.second), second, tolerance<TypeParam>());
    }
}

TYPED_TEST(OptimizerTest, SgdMatchesFormulaOverSteps) {
  for (const double momentum : {0.0, 0.9})
    for (const bool nesterov : {false, true})
      for (const auto count : counts) {
        Values weight = normal_values<TypeParam>(count, 1), buffer(weight.size());
        SgdUpdate update{.range = {.weight = tensor_of<TypeParam>(weight, {count}),
                                   .gradient = {},
                                   .gradient_factor = 2,
                                   .learning_rate = 0.01,
                                   .weight_decay = 0.1},
                         .momentum = momentum,
                         .nesterov = nesterov};
        // At step 1 the buffer is not read.
        if (momentum != 0) update.buffer = poisoned<TypeParam>({count});
        for (std::int64_t step = 1; step <= 4; ++step) {
          const Values gradient = this->gradient(count, step);
          update.step = step;
          update.range.gradient = tensor_of<TypeParam>(gradient, {count});
          sgd_update(backend(), update);
          for (std::size_t i = 0; i < weight.size(); ++i) {
            const double g = 2 * gradient[i] + 0.1 * weight[i];
            buffer[i] = momentum * buffer[i] + g;
            weight[i] -= 0.01 * (momentum == 0 ? g
                                 : nesterov    ? g + momentum * buffer[i]
                                               : buffer[i]);
          }
        }
        expect_close(values_of(update.range.weight), weight, tolerance<TypeParam>());
      }
}

TYPED_TEST(OptimizerTest, AdamWithoutDenominatorFollowsFirstMoment) {
  const std::int64_t count = 17;
  for (const double rectification : {1.0, 0.3})
    for (const bool adapts : {false, true}) {
      Values weight = normal_values<TypeParam>(count, 1);
      const Values gradient = this->gradient(count, 1);
      const Values zeros(weight.size());
      const OptimizerRange range{.weight = tensor_of<TypeParam>(weight, {count}),
                                 .gradient = tensor_of<TypeParam>(gradient, {count}),
                                 .learning_rate = 0.01};
      adam_update(backend(),
                  {.range = range,
                   .first = tensor_of<TypeParam>(zeros, {count}),
                   .second = tensor_of<TypeParam>(zeros, {count}),
                   .epsilon = 1e-3,
                   .rectification = rectification,
                   .adapts = adapts});
      for (std::size_t i = 0; i < weight.size(); ++i)
        weight[i] -=
            0.01 * rectification * gradient[i] / (adapts ? std::abs(gradient[i]) + 1e-3 : 1);
      expect_close(values_of(range.weight), weight, tolerance<TypeParam>());
    }
}

TYPED_TEST(OptimizerTest, LionMatchesFormulaOverSteps) {
  for (const auto count : counts) {
    Values weight = normal_values<TypeParam>(count, 1), first(weight.size());
    LionUpdate update{.range = {.weight = tensor_of<TypeParam>(weight, {count}),
                                .gradient = {},
                                .gradient_factor = 0.5,
                                .learning_rate = 0.01,
                                .weight_decay = 0.1},
                      .first = tensor_of<TypeParam>(first, {count}),
                      .beta1 = 0.8,
                      .beta2 = 0.95};
    for (std::int64_t step = 1; step <= 4; ++step) {
      Values gradient = this->gradient(count, step);
      // The first weight has no gradient in any step: its sign is 0.
      if (count > 0) gradient[0] = 0;
      update.range.gradient = tensor_of<TypeParam>(gradient, {count});
      lion_update(backend(), update);
      for (std::size_t i = 0; i < weight.size(); ++i) {
        const double g = 0.5 * gradient[i];
        const double direction = 0.8 * first[i] + 0.2 * g;
        const double sign = direction > 0 ? 1 : (direction < 0 ? -1 : 0);
        weight[i] -= 0.01 * (sign + 0.1 * weight[i]);
        first[i] = 0.95 * first[i] + 0.05 * g;
      }
    }
    expect_close(values_of(update.range.weight), weight, tolerance<TypeParam>());
    expect_close(values_of(update.first), first, tolerance<TypeParam>());
  }
}

TYPED_TEST(OptimizerTest, AdagradMatchesFormulaOverSteps) {
  for (const auto count : counts) {
    Values weight = normal_values<TypeParam>(count, 1), sum(weight.size());
    AdagradUpdate update{.range = {.weight = tensor_of<TypeParam>(weight, {count}),
                                   .gradient = {},
                                   .gradient_factor = 2,
                                   .learning_rate = 0.01,
                                   .weight_decay = 0.1},
                         .sum = tensor_of<TypeParam>(sum, {count}),
                         .epsilon = 1e-3};
    for (std::int64_t step = 1; step <= 4; ++step) {
      const Values gradient = this->gradient(count, step);
      update.range.gradient = tensor_of<TypeParam>(gradient, {count});
      adagrad_update(backend(), update);
      for (std::size_t i = 0; i < weight.size(); ++i) {
        const double g = 2 * gradient[i] + 0.1 * weight[i];
        sum[i] += g * g;
        weight[i] -= 0.01 * g / (std::sqrt(sum[i]) + 1e-3);
      }
    }
    expect_close(values_of(update.range.weight), weight, tolerance<TypeParam>());
    expect_close(values_of(update.sum), sum, tolerance<TypeParam>());
  }
}

TYPED_TEST(OptimizerTest, ScheduleFreeMatchesFormulaOverSteps) {
  for (const auto count : counts) {
    Values average = normal_values<TypeParam>(count, 1), fast = normal_values<TypeParam>(count, 2),
           second(average.size()), point(average.size());
    ScheduleFreeUpdate update{.range = {.weight = tensor_of<TypeParam>(average, {count}),
                                        .gradient = {},
                                        .compute = poisoned<TypeParam>({count}),
                                        .gradient_factor = 2,
                                        .learning_rate = 0.01,
                                        .weight_decay = 0.1},
                              .fast = tensor_of<TypeParam>(fast, {count}),
                              .second = tensor_of<TypeParam>(second, {count}),
                              .beta1 = 0.8,
                              .beta2 = 0.95,
                              .epsilon = 1e-6};
    for (std::int64_t step = 1; step <= 4; ++step) {
      const Values gradient = this->gradient(count, step);
      update.step = step;
      update.share = 1 / static_cast<double>(step);
      update.range.gradient = tensor_of<TypeParam>(gradient, {count});
      schedule_free_update(backend(), update);
      const double rate = 0.01 * std::sqrt(1 - std::pow(0.95, static_cast<double>(step)));
      for (std::size_t i = 0; i < average.size(); ++i) {
        const double g = 2 * gradient[i];
        second[i] = 0.95 * second[i] + 0.05 * g * g;
        const double y = 0.8 * average[i] + 0.2 * fast[i];
        fast[i] -= rate * (g / (std::sqrt(second[i]) + 1e-6) + 0.1 * y);
        average[i] += update.share * (fast[i] - average[i]);
        point[i] = 0.8 * average[i] + 0.2 * fast[i];
      }
    }
    expect_close(values_of(update.range.weight), average, tolerance<TypeParam>());
    expect_close(values_of(update.fast), fast, tolerance<TypeParam>());
    expect_close(values_of(update.second), second, tolerance<TypeParam>());
    expect_close(values_of(update.range.compute), point, tolerance<TypeParam>());
  }
}

TYPED_TEST(OptimizerTest, InterpolatesAndRoundsOnce) {
  const std::int64_t count = 37;
  const Values a = normal_values<TypeParam>(count, 1), b = normal_values<TypeParam>(count, 2);
  const Tensor left = tensor_of<TypeParam>(a, {count}), right = tensor_of<TypeParam>(b, {count});
  const Tensor wide = poisoned<TypeParam>({count}), narrow = poisoned<BFloat16>({count});
  interpolate(backend(), 0.7, left, right, wide);
  interpolate(backend(), 0.7, left, right, narrow);
  const Values found = values_of(wide), short_ones = values_of(narrow);
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(found[i], 0.7 * a[i] + 0.3 * b[i], 4 * tolerance<TypeParam>());
    EXPECT_EQ(short_ones[i], rounded<BFloat16>(found[i])) << i;
  }
}

TYPED_TEST(OptimizerTest, ComputeCopyReceivesRoundedWeights) {
  const auto run = [&]<typename C>(TypeTag<C>) {
    const std::int64_t count = 131;
    const Values weight = normal_values<TypeParam>(count, 1);
    const OptimizerRange range{.weight = tensor_of<TypeParam>(weight, {count}),
                               .gradient = tensor_of<TypeParam>(this->gradient(count, 1), {count}),
                               .compute = poisoned<C>({count}),
                               .learning_rate = 0.1};
    const auto expect_rounded = [&] {
      const Values updated = values_of(range.weight), compute = values_of(range.compute);
      for (std::size_t i = 0; i < updated.size(); ++i)
        EXPECT_EQ(compute[i], rounded<C>(updated[i])) << i;
    };
    const auto zeros = [&] { return tensor_of<TypeParam>(Values(131), {count}); };
    adam_update(backend(), {.range = range, .first = zeros(), .second = zeros()});
    expect_rounded();
    sgd_update(backend(), {.range = range});
    expect_rounded();
    lion_update(backend(), {.range = range, .first = zeros()});
    expect_rounded();
    adagrad_update(backend(), {.range = range, .sum = zeros()});
    expect_rounded();
  };
  run(TypeTag<BFloat16>{});
  run(TypeTag<Float16>{});
  if constexpr (std::is_same_v<TypeParam, double>) run(TypeTag<float>{});
}

TEST(Optimizer, RejectsWrongDTypesAndLengths) {
  AdamUpdate update{.range = {.weight = poisoned<float>({3}), .gradient = poisoned<float>({3})},
                    .first = poisoned<float>({3}),
                    .second = poisoned<float>({2})};
  EXPECT_THROW(adam_update(backend(), update), Failure);
  update.second = poisoned<float>({3});
  update.step = 0;
  EXPECT_THROW(adam_update(backend(), update), Failure);
  update.step = 1;
  update.range.compute = poisoned<double>({3});
  EXPECT_THROW(adam_update(backend(), update), Failure);
  update.range = {.weight = poisoned<BFloat16>({3}), .gradient = poisoned<BFloat16>({3})};
  EXPECT_THROW(adam_update(backend(), update), Failure);
  EXPECT_THROW(
      sgd_update(backend(),
                 {.range = {.weight = poisoned<float>({3}), .gradient = poisoned<float>({3})},
                  .momentum = 0.9}),
      Failure);
}

}  // namespace
}  // namespace longspan::optimizer_test
