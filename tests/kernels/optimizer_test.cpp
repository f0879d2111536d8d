#include "framework/kernels/optimizer.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan {
namespace {

using namespace longspan::testing;

template <typename T>
class OptimizerOf : public ::testing::Test {
 protected:
  // Gradients of some steps, as the kernel reads them.
  static Values gradient(std::int64_t count, std::int64_t step) {
    return normal_values<T>(count, static_cast<std::uint64_t>(100 + step));
  }
};
using WeightTypes = ::testing::Types<double, float>;
TYPED_TEST_SUITE(OptimizerOf, WeightTypes);

constexpr std::int64_t counts[] = {0, 1, 3, 17, 20001};

TYPED_TEST(OptimizerOf, AdamFollowsItsFormulaOverSteps) {
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

TYPED_TEST(OptimizerOf, SgdFollowsItsFormulaOverSteps) {
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

TYPED_TEST(OptimizerOf, ComputeReceivesTheRoundedWeights) {
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
    const Tensor zeros = tensor_of<TypeParam>(Values(131), {count});
    adam_update(backend(), {.range = range, .first = zeros, .second = zeros.clone()});
    expect_rounded();
    sgd_update(backend(), {.range = range});
    expect_rounded();
  };
  run(TypeTag<BFloat16>{});
  run(TypeTag<Float16>{});
  if constexpr (std::is_same_v<TypeParam, double>) run(TypeTag<float>{});
}

TEST(Optimizer, WrongDTypesAndLengthsAreNamed) {
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
}  // namespace longspan
