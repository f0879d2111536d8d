// Small layers on one process: outputs and gradients.
#include "framework/nn/layers.h"

#include "framework/nn/embedding.h"
#include "framework/nn/residual/residual.h"
#include "tests/nn/layer_testing.h"

namespace longspan::layers_test {
namespace {

using testing::allocate_randomly;
using testing::backend_device;
using testing::expect_close;
using testing::expect_layer_gradients;
using testing::one_process_parameters;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

Tensor ids(const std::vector<std::int64_t>& values, const Shape& shape) {
  return Tensor::from<std::int64_t>(values, shape, backend_device());
}

ForwardContext training_pass(std::uint64_t seed) {
  return {.training = true, .random = Random(seed)};
}

TEST(Linear, MatchesMatrixProductForEverySplit) {
  for (const ParallelMode split : {ParallelMode::none, ParallelMode::columns, ParallelMode::rows})
    for (const bool bias : {true, false}) {
      Parameters parameters = one_process_parameters();
      const Linear layer(Scope(parameters).child("layer"),
                         {.in = 3, .out = 2, .split = split, .bias = bias});
      allocate_randomly(parameters, 1);
      const Tensor x = random_tensor({2, 1, 3}, 2);
      const Values weight = values_of(parameters.named("layer/weight").master);
      Values expected;
      for (std::size_t row = 0; row < 2; ++row)
        for (std::size_t out = 0; out < 2; ++out) {
          double y = bias ? values_of(parameters.named("layer/bias").master)[out] : 0;
          for (std::size_t in = 0; in < 3; ++in)
            y += x.data<double>()[row * 3 + in] * weight[out * 3 + in];
          expected.push_back(y);
        }
      const auto product = [&](const Variable& in) {
        return split == ParallelMode::rows ? layer(in, ForwardContext()) : layer(in);
      };
      expect_close(values_of(product(Variable(x)).value()), expected, 1e-14);
      expect_layer_gradients(parameters, [&](const auto& in) { return product(in[0]); }, {x});
    }
}

TEST(Linear, ReportsItsNameForWrongInputWidth) {
  Parameters parameters = one_process_parameters();
  const Linear layer(Scope(parameters).child("layer3").child("query"), {.in = 3, .out = 2});
  allocate_randomly(parameters, 1);
  try {
    layer(Variable(random_tensor({2, 4}, 1)));
    FAIL() << "nothing was thrown";
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(), "Linear \"layer3/query\": expected 3 input features, found 4");
  }
}

TEST(Linear, RowSplitRequiresForwardContext) {
  Parameters parameters = one_process_parameters();
  const Linear layer(Scope(parameters), {.in = 3, .out = 2, .split = ParallelMode::rows});
  allocate_randomly(parameters, 1);
  EXPECT_THROW(layer(Variable(random_tensor({2, 3}, 1))), Failure);
}

TEST(LayerNorm, StartsWithMeanZeroAndVarianceOne) {
  Parameters parameters = one_process_parameters();
  const Norm norm(Scope(parameters).child("norm"), 64);
  parameters.allocate(Random(1));
  const Values y = values_of(norm(Variable(random_tensor({2, 64}, 1, 5))).value());
  for (std::size_t row = 0; row < 2; ++row) {
    double sum = 0;
    double squares = 0;
    for (std::size_t i = 0; i < 64; ++i) {
      sum += y[row * 64 + i];
      squares += y[row * 64 + i] * y[row * 64 + i];
    }
    EXPECT_NEAR(sum / 64, 0, 1e-12);
    EXPECT_NEAR(squares / 64, 1, 1e-5);
  }
}

TEST(LayerNorm, GradientMatchesFiniteDifferences) {
  Parameters parameters = one_process_parameters();
  const Norm norm(Scope(parameters), 5, {NormKind::layer, {}, 1e-3});
  allocate_randomly(parameters, 1);
  expect_layer_gradients(
      parameters, [&](const auto& in) { return norm(in[0]); }, {random_tensor({2, 3, 5}, 1)});
}

TEST(RmsNorm, DividesByRootMeanSquareAndHasNoBias) {
  Parameters parameters = one_process_parameters();
  const Norm norm(Scope(parameters).child("norm"), 5, {NormKind::rms, {}, 1e-3});
  EXPECT_EQ(parameters.all().size(), 1u);
  allocate_randomly(parameters, 1);
  const Tensor x = random_tensor({2, 3, 5}, 1);
  const double* const gain = parameters.named("norm/weight").master.data<double>();
  Values expected;
  for (std::int64_t row = 0; row < 6; ++row) {
    const double* const values = x.data<double>() + row * 5;
    double squares = 0;
    for (int i = 0; i < 5; ++i) squares += values[i] * values[i];
    for (int i = 0; i < 5; ++i)
      expected.push_back(gain[i] * values[i] / std::sqrt(squares / 5 + 1e-3));
  }
  expect_close(values_of(norm(Variable(x)).value()), expected, 1e-13);
  expect_layer_gradients(parameters, [&](const auto& in) { return norm(in[0]); }, {x});
}

TEST(RmsNorm, FusedResidualSumMatchesDropoutAdd) {
  Parameters parameters = one_process_parameters();
  const Norm norm(Scope(parameters).child("norm"), 5, {NormKind::rms, {}, 1e-3});
  allocate_randomly(parameters, 1);
  const Tensor x = random_tensor({2, 3, 5}, 1), change = random_tensor({2, 3, 5}, 2);
  const ForwardContext pass = training_pass(3);
  const ResidualNorm both = norm.of_sum(Variable(x), Variable(change.clone()), 0.3, pass);
  expect_close(values_of(both.norm.value()),
               values_of(norm(dropout_add(Variable(x), Variable(change), 0.3, pass)).value()),
               1e-13);
  expect_layer_gradients(parameters,
                         [&](const auto& in) {
                           const ResidualNorm sum = norm.of_sum(in[0], Variable(in[1]), 0.3, pass);
                           return add(sum.sum, sum.norm);
                         },
                         {x, change});
}

TEST(FeedForward, GradientMatchesFiniteDifferences) {
  for (const Activation activation : {Activation::relu, Activation::gelu, Activation::gelu_tanh})
    for (const double dropout : {0.0, 0.3}) {
      SCOPED_TRACE(static_cast<int>(activation));
      Parameters parameters = one_process_parameters();
      const FeedForward layer(
          Scope(parameters),
          {.width = 4, .hidden = 6, .activation = activation, .dropout = dropout});
      allocate_randomly(parameters, 1);
      expect_layer_gradients(parameters,
                             [&](const auto& in) { return layer(in[0], training_pass(3)); },
                             {random_tensor({2, 3, 4}, 1)});
    }
}

TEST(FeedForward, AppliesDropoutOnlyInTraining) {
  Parameters parameters = one_process_parameters();
  const FeedForward layer(Scope(parameters), {.width = 4, .hidden = 64, .dropout = 0.5});
  allocate_randomly(parameters, 1);
  const Variable x(random_tensor({2, 3, 4}, 1));
  const Values still = values_of(layer(x, ForwardContext()).value());
  EXPECT_EQ(still, values_of(layer(x, {.random = Random(9)}).value()));
  EXPECT_NE(still, values_of(layer(x, training_pass(1)).value()));
  EXPECT_NE(values_of(layer(x, training_pass(1)).value()),
            values_of(layer(x, training_pass(2)).value()));
}

// Features [begin, begin + count) of a tensor with three axes.
Tensor features(const Tensor& x, std::int64_t begin, std::int64_t count) {
  const Tensor result = Tensor::empty(x.shape().with(-1, count), x.dtype(), x.device());
  for (std::int64_t row = 0; row < x.shape().rows(); ++row)
    std::copy_n(x.data<double>() + row * x.shape().width() + begin,
                count,
                result.data<double>() + row * count);
  return result;
}

TEST(Dropout, MaskDoesNotDependOnSharding) {
  const Tensor x = random_tensor({4, 3, 10}, 1);
  const ForwardContext pass = training_pass(5);
  const Tensor whole = drop(Variable(x), 0.4, pass).value();
  for (const auto& [begin, count] : {std::pair{0, 3}, {3, 3}, {6, 4}, {9, 1}}) {
    const Variable part(features(x, begin, count));
    EXPECT_TRUE(testing::same_bits(drop(part, 0.4, pass, ShardRange{begin, count, 10}).value(),
                                   features(whole, begin, count)));
  }
  ForwardContext second_half = pass;
  second_half.first_stream = 2;
  EXPECT_TRUE(testing::same_bits(drop(Variable(x.slice(2, 4)), 0.4, second_half).value(),
                                 whole.slice(2, 4)));
}

TEST(Dropout, PreservesExpectationAndRate) {
  const Tensor ones = testing::tensor_of<double>(Values(100'000, 1), {10, 100, 100});
  const Values dropped = values_of(drop(Variable(ones), 0.3, training_pass(1)).value());
  const auto kept = std::ranges::count_if(dropped, [](double value) { return value != 0; });
  EXPECT_NEAR(static_cast<double>(kept) / 1e5, 0.7, 0.01);
  for (const double value : dropped) ASSERT_NEAR(value, value == 0 ? 0 : 1 / 0.7, 1e-12);
}

TEST(TokenEmbedding, LooksUpAndScalesRows) {
  Parameters parameters = one_process_parameters();
  const TokenEmbedding layer(Scope(parameters).child("embedding"), 5, 3, Initializer::normal(1));
  allocate_randomly(parameters, 1);
  const Tensor tokens = ids({4, 0, 0, 2}, {2, 2});
  const Tensor table = parameters.named("embedding/weight").master;
  const Values found = values_of(layer(tokens, 2).value());
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t j = 0; j < 3; ++j)
      EXPECT_EQ(found[i * 3 + j],
                2 * table.data<double>()[tokens.data<std::int64_t>()[i] * 3 + static_cast<int>(j)]);
  expect_layer_gradients(parameters, [&](const auto&) { return layer(tokens, 2); }, {});
}

TEST(LMHead, GradientMatchesFiniteDifferences) {
  const Tensor targets = ids({1, 4, -1, 0}, {2, 2});
  for (const bool bias : {true, false}) {
    Parameters parameters = one_process_parameters();
    const LMHead layer(Scope(parameters), {.vocabulary = 5, .width = 3, .bias = bias});
    allocate_randomly(parameters, 1);
    expect_layer_gradients(parameters,
                           [&](const auto& in) { return layer.losses(in[0], targets); },
                           {random_tensor({2, 2, 3}, 1)});
    expect_layer_gradients(parameters,
                           [&](const auto& in) { return layer.logits(in[0]); },
                           {random_tensor({2, 2, 3}, 1)});
  }
}

// Cross-entropy with smoothed targets, whose weights sum to 1 over the classes.
TEST(LMHead, LabelSmoothingMatchesFormula) {
  const Tensor targets = ids({1, 4, -1, 0}, {2, 2});
  const Tensor x = random_tensor({2, 2, 3}, 1);
  for (const std::int64_t chunks : {1, 3})
    for (const LabelSmoothingStyle kind :
         {LabelSmoothingStyle::all_classes, LabelSmoothingStyle::wrong_classes}) {
      Parameters parameters = one_process_parameters();
      const LMHead layer(Scope(parameters), {.vocabulary = 5, .width = 3, .chunks = chunks});
      allocate_randomly(parameters, 1);
      const LabelSmoothing smoothing = {.share = 0.3, .kind = kind};
      const Values logits = values_of(layer.logits(Variable(x)).value());
      const Values found = values_of(layer.losses(Variable(x), targets, {}, smoothing).value());
      const double off = 0.3 / (kind == LabelSmoothingStyle::all_classes ? 5 : 4);
      for (std::size_t row = 0; row < 4; ++row) {
        const std::int64_t target = targets.data<std::int64_t>()[row];
        double sum = 0;
        for (std::size_t i = 0; i < 5; ++i) sum += std::exp(logits[5 * row + i]);
        double expected = 0;
        for (std::size_t i = 0; i < 5; ++i) {
          const bool wrong = static_cast<std::int64_t>(i) != target;
          const double weight =
              wrong ? off : 0.7 + (kind == LabelSmoothingStyle::all_classes ? off : 0);
          expected += weight * (std::log(sum) - logits[5 * row + i]);
        }
        EXPECT_NEAR(found[row], target < 0 ? 0 : expected, 1e-12);
      }
      expect_layer_gradients(
          parameters,
          [&](const auto& in) { return layer.losses(in[0], targets, {}, smoothing); },
          {x});
    }
}

TEST(LMHead, LastLogitsMatchLastRows) {
  Parameters parameters = one_process_parameters();
  const LMHead layer(Scope(parameters), {.vocabulary = 5, .width = 3});
  allocate_randomly(parameters, 1);
  const Variable x(random_tensor({2, 4, 3}, 1));
  const Tensor all = layer.logits(x).value(), last = layer.logits(x, {}, true).value();
  EXPECT_EQ(last.shape(), Shape({2, 1, 5}));
  for (std::int64_t stream = 0; stream < 2; ++stream) {
    const Tensor rows = all.slice(stream, stream + 1).reshape({4, 5});
    EXPECT_EQ(values_of(last.slice(stream, stream + 1)), values_of(rows.slice(3, 4)));
  }
}

TEST(LMHead, TiedTableAccumulatesBothGradients) {
  Parameters parameters = one_process_parameters();
  const TokenEmbedding words(Scope(parameters).child("embedding"), 5, 3, Initializer::normal(1));
  const LMHead layer(
      Scope(parameters).child("output"), {.vocabulary = 5, .width = 3}, words.table());
  allocate_randomly(parameters, 1);
  EXPECT_EQ(parameters.all().size(), 2u) << "the table and the bias";
  const Tensor tokens = ids({1, 4, 2, 0}, {2, 2});
  expect_layer_gradients(
      parameters, [&](const auto&) { return layer.losses(words(tokens, 1.5), tokens); }, {});
}

// Two layers of two sublayers, the first of which reads the memory.
std::vector<Layer> small_layers(Parameters& parameters) {
  std::vector<Layer> layers;
  for (int i = 0; i < 2; ++i) {
    const Scope scope = Scope(parameters).child(i);
    const auto mix =
        std::make_shared<Linear>(scope.child("mix"), Linear::Options{.in = 4, .out = 4});
    Sublayer first = {
        .norm = Norm(scope.child("norm0"), 4),
        .reads = Reads::memory,
        .run = [mix](const Variable& x, const SublayerInputs& reads, const ForwardContext&) {
          const Variable y = (*mix)(x);
          return reads.memory.defined() ? add(y, activate(Activation::gelu, reads.memory)) : y;
        }};
    Sublayer second = {
        .norm = Norm(scope.child("norm1"), 4),
        .run = [mix](const Variable& x, const SublayerInputs& reads, const ForwardContext&) {
          EXPECT_FALSE(reads.memory.defined());
          return activate(Activation::gelu, (*mix)(x));
        }};
    layers.push_back({{std::move(first), std::move(second)}});
  }
  return layers;
}

TEST(StandardResidual, GradientMatchesFiniteDifferences) {
  for (const NormPosition placement : {NormPosition::post, NormPosition::pre})
    for (const double dropout : {0.0, 0.3}) {
      Parameters parameters = one_process_parameters();
      const std::vector<Layer> layers = small_layers(parameters);
      allocate_randomly(parameters, 1);
      const StandardResidual residual(placement, dropout);
      expect_layer_gradients(
          parameters,
          [&](const auto& in) {
            return residual.run(layers, in[0], {.memories = {in[1], in[2]}}, training_pass(4));
          },
          {random_tensor({2, 3, 4}, 1), random_tensor({2, 3, 4}, 2), random_tensor({2, 3, 4}, 3)});
    }
}

TEST(StandardResidual, PlacesNormsBeforeOrAfterSublayers) {
  Parameters parameters = one_process_parameters();
  const std::vector<Layer> all = small_layers(parameters);
  const std::span<const Layer> one(all.data(), 1);
  allocate_randomly(parameters, 1);
  const Variable x(random_tensor({1, 2, 4}, 1));
  const Variable memory(random_tensor({1, 2, 4}, 2));
  const StackInputs reads = {.memories = {memory}};
  const auto& [first, second] = std::tie(one[0].sublayers[0], one[0].sublayers[1]);
  const auto run = [](const Sublayer& sublayer, const Variable& in, const Variable& past) {
    return sublayer.run(in, {.memory = past}, ForwardContext());
  };
  const Variable post_middle = first.norm(add(x, run(first, x, memory)));
  const Variable post = second.norm(add(post_middle, run(second, post_middle, Variable())));
  EXPECT_TRUE(testing::same_bits(
      StandardResidual(NormPosition::post, 0).run(one, x, reads, ForwardContext()).value(),
      post.value()));
  const Variable pre_middle = add(x, run(first, first.norm(x), first.norm(memory)));
  const Variable pre = add(pre_middle, run(second, second.norm(pre_middle), Variable()));
  EXPECT_TRUE(testing::same_bits(
      StandardResidual(NormPosition::pre, 0).run(one, x, reads, ForwardContext()).value(),
      pre.value()));
}

TEST(StandardResidual, RecordsEachLayerInput) {
  Parameters parameters = one_process_parameters();
  const std::vector<Layer> layers = small_layers(parameters);
  allocate_randomly(parameters, 1);
  const StandardResidual residual(NormPosition::post, 0);
  const Variable x(random_tensor({1, 2, 4}, 1));
  std::vector<Tensor> seen;
  const auto show = [&](std::size_t layer, const Tensor& input) {
    EXPECT_EQ(layer, seen.size());
    seen.push_back(input);
  };
  residual.run(layers, x, {}, ForwardContext(), {.input = show});
  const std::span<const Layer> first(layers.data(), 1);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_TRUE(testing::same_bits(seen[0], x.value()));
  EXPECT_TRUE(testing::same_bits(seen[1], residual.run(first, x, {}, ForwardContext()).value()));
}

TEST(StandardResidual, RejectsMismatchedMemoryCount) {
  Parameters parameters = one_process_parameters();
  const std::vector<Layer> layers = small_layers(parameters);
  allocate_randomly(parameters, 1);
  const Variable x(random_tensor({1, 2, 4}, 1));
  EXPECT_THROW(
      StandardResidual(NormPosition::post, 0).run(layers, x, {.memories = {x}}, ForwardContext()),
      Failure);
}

}  // namespace
}  // namespace longspan::layers_test
