// The tape: order, accumulation, buffers, gradient hooks, nesting, depth.
#include <cmath>

#include "framework/autograd/ops.h"
#include "framework/kernels/elementwise.h"
#include "tests/support/gradient_check.h"

namespace longspan::tape_test {
namespace {

using testing::backend_device;
using testing::random_tensor;
using testing::tensor_of;
using testing::Values;
using testing::values_of;

Tensor vector_of(const Values& values) { return tensor_of<double>(values, {std::ssize(values)}); }

// factor * x. Counts its backward calls in `calls`.
Variable times(double factor, const Variable& x, int* calls = nullptr) {
  const auto scaled = [factor](const Tensor& from) {
    Tensor to = from.empty_like();
    scale(testing::cpu(), factor, from, to);
    return to;
  };
  return record(scaled(x.value()), {x}, [scaled, calls](BackwardContext& gradients) {
    if (calls != nullptr) ++*calls;
    gradients.set(0, scaled(gradients.output()));
  });
}

TEST(Tape, SumsGradientsOverUses) {
  const Variable x = Variable::leaf(vector_of({2}));
  int calls = 0;
  const Variable shared = times(3, x, &calls);
  backward(add(times(5, shared), times(7, shared)));
  EXPECT_EQ(values_of(x.gradient()), (Values{36}));
  EXPECT_EQ(calls, 1) << "an op is walked once, when all its uses are done";
}

TEST(Tape, NestedDiamondsTakeLinearTime) {
  const Variable x = Variable::leaf(vector_of({1}));
  Variable y = x;
  int calls = 0;
  for (int i = 0; i < 40; ++i) y = add(times(1, y, &calls), times(1, y, &calls));
  backward(y);
  EXPECT_EQ(values_of(x.gradient()), (Values{std::pow(2.0, 40)}));
  EXPECT_EQ(calls, 80);
}

TEST(Tape, UnusedOutputHasNoGradient) {
  const Variable x = Variable::leaf(vector_of({2}));
  int calls = 0;
  const std::vector<Variable> outputs =
      record({vector_of({4}), vector_of({6})}, {x}, [&](BackwardContext& gradients) {
        ++calls;
        EXPECT_FALSE(gradients.has_output(0));
        ASSERT_TRUE(gradients.has_output(1));
        EXPECT_THROW(gradients.output(0), Failure);
        gradients.set(0, gradients.release_output(1));
      });
  backward(times(3, outputs[1]));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(values_of(x.gradient()), (Values{3}));
}

TEST(Tape, PassesAllOutputGradientsTogether) {
  const Variable x = Variable::leaf(vector_of({2}));
  int calls = 0;
  const std::vector<Variable> outputs =
      record({vector_of({4}), vector_of({6})}, {x}, [&](BackwardContext& gradients) {
        ++calls;
        const Tensor total = gradients.output(0).empty_like();
        add(testing::cpu(), gradients.output(0), gradients.output(1), total);
        gradients.set(0, total);
      });
  // The path to the second output has more ops.
  backward(add(times(2, outputs[0]), times(10, times(10, outputs[1]))));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(values_of(x.gradient()), (Values{102}));
}

TEST(Tape, DoesNotCallUnreachableOps) {
  const Variable x = Variable::leaf(vector_of({2}));
  const Variable other = Variable::leaf(vector_of({2}));
  int calls = 0;
  const Variable unused = times(3, other, &calls);
  backward(times(2, x));
  EXPECT_EQ(calls, 0);
  EXPECT_FALSE(other.gradient().defined());
}

TEST(Tape, SupportsSeveralRootsWithSeeds) {
  const Variable x = Variable::leaf(vector_of({1, 2}));
  const Variable first = times(2, x);
  const Variable second = times(3, first);
  backward({first, second}, {vector_of({1, 10}), vector_of({100, 1000})});
  EXPECT_EQ(values_of(x.gradient()), (Values{602, 6020}));
}

TEST(Tape, MillionOpsDoNotOverflowTheStack) {
  const Variable x = Variable::leaf(vector_of({1}));
  const auto chain = [&](int length) {
    Variable y = x;
    for (int i = 0; i < length; ++i) y = reshape(y, {1});
    return y;
  };
  { const Variable unwalked = chain(300'000); }
  const Variable y = chain(1'000'000);
  backward(y);
  EXPECT_EQ(values_of(x.gradient()), (Values{1}));
}

TEST(Tape, DestroysLongDiamondChainWithoutRecursion) {
  const Variable x = Variable::leaf(vector_of({1}));
  Variable y = x;
  for (int i = 0; i < 200'000; ++i) y = add(y, y);
  Variable kept = y;
  y = Variable();
  kept = Variable();
  EXPECT_FALSE(x.gradient().defined());
}

TEST(Tape, RejectsSecondBackward) {
  const Variable x = Variable::leaf(vector_of({2}));
  const Variable y = times(3, x);
  backward(y);
  EXPECT_THROW(backward(y), Failure);
  EXPECT_THROW(backward(times(2, y)), Failure);
  EXPECT_EQ(values_of(x.gradient()), (Values{3}));
}

TEST(Tape, BackwardFreesCapturedTensors) {
  const Tensor kept = vector_of({1});
  const Variable x = Variable::leaf(vector_of({2}));
  const Variable y = record(vector_of({3}), {x}, [kept](BackwardContext& gradients) {
    gradients.set(0, gradients.release_output());
  });
  EXPECT_FALSE(kept.is_unique());
  backward(y);
  EXPECT_TRUE(kept.is_unique()) << "although the output lives on";
}

TEST(Tape, AccumulatesGradientsUntilCleared) {
  const Variable x = Variable::leaf(vector_of({2}));
  backward(times(3, x));
  backward(times(4, x));
  EXPECT_EQ(values_of(x.gradient()), (Values{7}));
  x.clear_gradient();
  EXPECT_FALSE(x.gradient().defined());
  backward(times(5, x));
  EXPECT_EQ(values_of(x.gradient()), (Values{5}));
}

TEST(Tape, DoesNotOverwriteGradientSharedByTwoInputs) {
  const Variable a = Variable::leaf(vector_of({1}));
  const Variable b = Variable::leaf(vector_of({1}));
  // add passes one tensor to both inputs; then each input receives another gradient.
  backward(add(add(a, b), add(times(10, a), times(100, b))));
  EXPECT_EQ(values_of(a.gradient()), (Values{11}));
  EXPECT_EQ(values_of(b.gradient()), (Values{101}));
}

TEST(Tape, DoesNotOverwriteSeed) {
  const Variable x = Variable::leaf(vector_of({-1, 2}));
  const Tensor seed = vector_of({5, 6});
  backward({activate(Activation::relu, x)}, {seed});
  EXPECT_EQ(values_of(seed), (Values{5, 6}));
  EXPECT_EQ(values_of(x.gradient()), (Values{0, 6}));
}

TEST(Tape, AccumulatesGradientInGivenBuffer) {
  const Tensor flat = vector_of({7, 7, 7, 7, 7, 7});
  const Variable x = Variable::leaf(random_tensor({2, 2}, 1), DType::f64, flat.slice(1, 5));
  EXPECT_FALSE(x.gradient().defined()) << "what the buffer held before does not count";
  backward(sum(x, 2));
  backward(sum(x, 3));
  EXPECT_EQ(values_of(flat), (Values{7, 5, 5, 5, 5, 7}));
  EXPECT_EQ(x.gradient().bytes(), flat.slice(1, 5).bytes());
  x.clear_gradient();
  backward(sum(x, 1));
  EXPECT_EQ(values_of(flat), (Values{7, 1, 1, 1, 1, 7}));
  EXPECT_THROW(Variable::leaf(random_tensor({2, 2}, 1), DType::f64, flat), Failure);
  EXPECT_THROW(Variable::leaf(random_tensor({2, 2}, 1), DType::f32, flat.slice(0, 4)), Failure);
}

TEST(Tape, RequestsAndReleasesGradientBuffer) {
  const Variable x = Variable::leaf(vector_of({1, 2}));
  std::vector<Tensor> given;
  x.set_gradient_buffer([&] {
    given.push_back(vector_of({-1, -1}));
    return given.back();
  });
  EXPECT_TRUE(given.empty());
  backward(sum(add(x, x), 3));
  backward(sum(x, 1));
  ASSERT_EQ(given.size(), 1u) << "one buffer, however many parts";
  EXPECT_EQ(values_of(given[0]), (Values{7, 7}));
  EXPECT_EQ(x.gradient().bytes(), given[0].bytes());
  x.clear_gradient();
  EXPECT_FALSE(x.gradient().defined());
  EXPECT_TRUE(given[0].is_unique());
  x.zero_gradient();
  ASSERT_EQ(given.size(), 2u);
  EXPECT_EQ(values_of(given[1]), (Values{0, 0}));
  x.set_gradient_buffer({});
  backward(sum(x, 4));
  EXPECT_EQ(given.size(), 2u);
  EXPECT_EQ(values_of(x.gradient()), (Values{4, 4}));
}

TEST(Tape, Bf16LeafAccumulatesInF32) {
  // 1 + 1/512 is not a bf16 value: a sum rounded at each step would stay at 1.
  const Variable x = Variable::leaf(tensor_of<BFloat16>({1, 1}, {1, 2}), DType::f32);
  backward(sum(x, 1));
  for (int i = 0; i < 4; ++i) backward(sum(x, 1.0 / 512));
  ASSERT_EQ(x.gradient().dtype(), DType::f32);
  EXPECT_EQ(values_of(x.gradient()), (Values{1 + 4.0 / 512, 1 + 4.0 / 512}));
}

TEST(Tape, Bf16LinearWeightsReceiveF32Gradients) {
  const Variable x = Variable::leaf(tensor_of<BFloat16>({1, 2}, {1, 2}));
  const Variable weight = Variable::leaf(tensor_of<BFloat16>({3, 4}, {1, 2}), DType::f32);
  const Variable bias = Variable::leaf(tensor_of<float>({0.5}, {1}));
  const Variable y = linear(x, weight, bias);
  EXPECT_EQ(y.value().dtype(), DType::bf16);
  EXPECT_EQ(values_of(y.value()), (Values{11.5}));
  backward({y}, {tensor_of<BFloat16>({2}, {1, 1})});
  EXPECT_EQ(weight.gradient().dtype(), DType::f32);
  EXPECT_EQ(x.gradient().dtype(), DType::bf16);
  EXPECT_EQ(values_of(weight.gradient()), (Values{2, 4}));
  EXPECT_EQ(values_of(x.gradient()), (Values{6, 8}));
  EXPECT_EQ(values_of(bias.gradient()), (Values{2}));
}

TEST(Tape, CallsGradientHookOnceAfterLastContribution) {
  const Variable first = Variable::leaf(vector_of({1}));
  const Variable second = Variable::leaf(vector_of({1}));
  Values announced;
  first.register_gradient_hook([&] { announced.push_back(values_of(first.gradient())[0]); });
  second.register_gradient_hook([&] { announced.push_back(values_of(second.gradient())[0]); });
  // Uses of `first`: early, twice in one op, and late. Uses of `second`: late.
  const Variable early = times(2, add(first, first));
  backward(add(add(early, times(10, first)), times(100, second)));
  EXPECT_EQ(announced, (Values{100, 14})) << "complete gradients, the last used first";
}

TEST(Tape, CallsGradientHookIfLeafIsRoot) {
  const Variable x = Variable::leaf(vector_of({1}));
  int calls = 0;
  x.register_gradient_hook([&] { ++calls; });
  backward(x);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(values_of(x.gradient()), (Values{1}));
}

TEST(Tape, CallsGradientHookWithoutGradient) {
  const Variable x = Variable::leaf(vector_of({1}));
  const Variable y = Variable::leaf(vector_of({1}));
  int calls = 0;
  y.register_gradient_hook([&] { ++calls; });
  // The closure sets no gradient of its second input.
  const Variable inner = times(2, y);
  backward(record(vector_of({1}), {x, inner}, [](BackwardContext& gradients) {
    gradients.set(0, gradients.release_output());
  }));
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(y.gradient().defined());
}

TEST(Tape, CallsBetweenAfterEachOp) {
  const Variable x = Variable::leaf(vector_of({1}));
  int calls = 0;
  BackwardOptions options;
  options.between = [&] { ++calls; };
  backward(times(2, times(3, times(4, x))), options);
  EXPECT_EQ(calls, 3);
}

TEST(Tape, DoesNotRecordUnderNoGradGuard) {
  const Variable x = Variable::leaf(vector_of({1}));
  const NoGradGuard outer;
  EXPECT_FALSE(times(2, x).requires_grad());
  {
    const EnableGradGuard inner;
    EXPECT_TRUE(times(2, x).requires_grad());
    {
      const NoGradGuard innermost;
      EXPECT_FALSE(times(2, x).requires_grad());
    }
    EXPECT_TRUE(times(2, x).requires_grad());
  }
  EXPECT_FALSE(times(2, x).requires_grad());
}

TEST(Tape, DoesNotRecordConstants) {
  int calls = 0;
  const Variable y = times(2, Variable(vector_of({1})), &calls);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_FALSE(Variable::leaf(vector_of({1})).detach().requires_grad());
}

TEST(Tape, RejectsNonLeafGradient) {
  const Variable x = Variable::leaf(vector_of({1}));
  EXPECT_THROW(times(2, x).gradient(), Failure);
  EXPECT_THROW(Variable(vector_of({1})).gradient(), Failure);
}

TEST(Tape, RejectsMismatchedSeeds) {
  const Variable x = Variable::leaf(vector_of({1, 2}));
  EXPECT_THROW(backward(times(2, x)), Failure);
  EXPECT_THROW(backward({times(2, x)}, {}), Failure);
  EXPECT_THROW(backward({times(2, x)}, {vector_of({1, 2, 3})}), Failure);
}

TEST(Tape, DoesNotRecordInsideBackward) {
  const Variable x = Variable::leaf(vector_of({1}));
  bool recorded = true;
  backward(record(vector_of({1}), {x}, [&](BackwardContext& gradients) {
    recorded = times(2, x).requires_grad();
    gradients.set(0, gradients.release_output());
  }));
  EXPECT_FALSE(recorded);
  EXPECT_TRUE(times(2, x).requires_grad());
}

TEST(Tape, RecordsAgainAfterFailedBackward) {
  const Variable x = Variable::leaf(vector_of({1}));
  EXPECT_THROW(
      backward(record(vector_of({1}), {x}, [](BackwardContext&) { throw Failure("a defect"); })),
      Failure);
  EXPECT_TRUE(times(2, x).requires_grad());
}

}  // namespace
}  // namespace longspan::tape_test
