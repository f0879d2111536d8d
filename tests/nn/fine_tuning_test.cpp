// Low-rank adapters next to frozen weights.
#include "framework/nn/fine_tuning.h"

#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/matmul.h"
#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/softmax_attention.h"
#include "framework/nn/power_statistics.h"
#include "tests/nn/layer_testing.h"

namespace longspan::fine_tuning_test {
namespace {

using testing::allocate_randomly;
using testing::backend_device;
using testing::expect_close;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

constexpr std::int64_t width = 6;
const Shape input = {2, 5, width};
const ForwardContext training = {.training = true, .random = Random(4)};

// All linear layers have an adapter of rank 2 and factor 1.5.
FineTuning adapters(double dropout = 0) {
  return {.adapters = {.rank = 2, .alpha = 3, .dropout = dropout, .layers = {"layer"}}};
}

Parameters parameters_with(const FineTuning& tuning) {
  return Parameters(backend_device(), DType::f64, ProcessMesh(), {}, false, tuning);
}

FeedForward feed_forward(Parameters& parameters, bool gated) {
  return FeedForward(Scope(parameters).child("layer"),
                     {.width = width,
                      .hidden = 7,
                      .activation = Activation::silu,
                      .dropout = 0.3,
                      .gated = gated});
}

TEST(FineTuning, MatchesWholeNameComponents) {
  EXPECT_TRUE(matches_name("layers/0/attention/query", "attention/query"));
  EXPECT_TRUE(matches_name("layers/0/attention/query", "layers"));
  EXPECT_TRUE(matches_name("layers/0/attention/query", "layers/0/attention/query"));
  EXPECT_TRUE(matches_name("layers/10/layers/1", "layers/1"));
  EXPECT_FALSE(matches_name("layers/10/attention/query", "layers/1"));
  EXPECT_FALSE(matches_name("layers/0/cross_attention/query", "attention/query"));
  EXPECT_FALSE(matches_name("layers/0/attention/query", "query/weight"));
  EXPECT_FALSE(matches_name("layers/0/attention/query", ""));
}

TEST(FineTuning, AdaptersStartAtZeroAndAreTrainedAlone) {
  Parameters parameters = parameters_with(adapters());
  const Linear layer(Scope(parameters).child("layer"), {.in = width, .out = 4});
  parameters.allocate(Random(1));
  ASSERT_EQ(parameters.trained().size(), 2u);
  EXPECT_EQ(parameters.global_elements(), 4 * width + 4 + 2 * width + 4 * 2);
  EXPECT_EQ(parameters.trained_elements(), 2 * width + 4 * 2);
  const Parameter& down = parameters.named("layer/adapter/down");
  const Parameter& up = parameters.named("layer/adapter/up");
  double largest = 0;
  for (const double value : values_of(down.master)) largest = std::max(largest, std::abs(value));
  EXPECT_LT(largest, 1 / std::sqrt(6.0));
  EXPECT_GT(largest, 0.5 / std::sqrt(6.0));
  for (const double value : values_of(up.master)) EXPECT_EQ(value, 0);
  const Variable x(random_tensor(input, 2));
  const Variable y = layer(x);
  expect_close(
      values_of(y.value()), values_of(linear(x, layer.weight(), layer.bias()).value()), 1e-14);
  backward({y}, {random_tensor(y.shape(), 3)});
  EXPECT_TRUE(up.variable.gradient().defined());
}

TEST(FineTuning, FrozenWeightsHaveNoGradientOrOptimizerState) {
  Parameters parameters = parameters_with({.frozen = {"b", "c"}});
  parameters.add("a", {3, 5}, -1, Initializer::normal(1), true);
  const Weight b = parameters.add("b", {7, 4}, -1, Initializer::normal(1), true);
  const Weight c = parameters.add("c/weight", {5}, -1, Initializer::normal(1), false);
  parameters.allocate(Random(1));
  EXPECT_EQ(parameters.shard_elements(), 16);
  ASSERT_EQ(parameters.runs().size(), 1u);
  EXPECT_EQ(parameters.runs().front().shard_master.elements(), 15);
  for (const Weight& each : {b, c}) {
    EXPECT_FALSE(each->variable.requires_grad());
    EXPECT_FALSE(each->gradient.defined());
    EXPECT_FALSE(each->shard_gradient.defined());
    EXPECT_EQ(each->shard_master.elements(), each->shape.elements()) << "it is saved";
  }
  for (const ParameterBucket& bucket : parameters.buckets())
    EXPECT_EQ(bucket.gradient.defined(), !bucket.frozen());
  parameters.clear_gradients();
  EXPECT_THROW(check_patterns_match(parameters_with({.frozen = {"d"}})), ConfigurationError);
}

TEST(FineTuning, FrozenLayersKeepActivationStatistics) {
  Parameters parameters = parameters_with({.frozen = {"layers/0", "norm"}});
  Scope layers = Scope(parameters).child("layers");
  for (const std::int64_t i : {0, 1}) layers.child(i).centroids("centroids", {2, 3, 4}, 0.5);
  const Norm still(
      Scope(parameters).child("norm"), width, {NormKind::power, {.decay = 0.5, .warmup = 2}, 1e-3});
  const Norm moving(Scope(parameters).child("other"),
                    width,
                    {NormKind::power, {.decay = 0.5, .warmup = 2}, 1e-3});
  check_patterns_match(parameters);
  parameters.allocate(Random(1));
  const auto averages = [&](std::size_t i) {
    return values_of(parameters.power_statistics()[i]->square);
  };
  const auto centroids = [&](std::size_t i) {
    return values_of(parameters.centroids()[i]->centroids);
  };
  const Values first = centroids(0), second = centroids(1), average = averages(0);
  for (const auto& each : parameters.centroids()) {
    each->sums.copy_from(random_tensor(each->sums.shape(), 2));
    each->counts.copy_from(testing::tensor_of<double>(Values(6, 2.0), each->counts.shape()));
  }
  const Variable x(random_tensor(input, 2, 3));
  // A frozen norm divides rows as in evaluation, from the first step on.
  EXPECT_EQ(values_of(still(x, training, {}).value()), values_of(still(x).value()));
  EXPECT_NE(values_of(moving(x, training, {}).value()), values_of(moving(x).value()));
  parameters.end_step(true);
  EXPECT_EQ(centroids(0), first);
  EXPECT_NE(centroids(1), second);
  EXPECT_EQ(averages(0), average);
  EXPECT_NE(averages(1), average);
  for (const double sum : values_of(parameters.centroids()[0]->sums)) EXPECT_EQ(sum, 0);
}

TEST(FineTuning, LinearGradientsMatchNumericalGradients) {
  for (const double dropout : {0.0, 0.4}) {
    Parameters parameters = parameters_with(adapters(dropout));
    const Linear layer(Scope(parameters).child("layer"), {.in = width, .out = 4});
    allocate_randomly(parameters, 1);
    testing::expect_layer_gradients(
        parameters,
        [&](const std::vector<Variable>& v) { return layer(v[0], training); },
        {random_tensor(input, 2)});
  }
}

TEST(FineTuning, FeedForwardGradientsMatchNumericalGradients) {
  for (const bool gated : {false, true}) {
    Parameters parameters = parameters_with(adapters(0.4));
    const FeedForward layer = feed_forward(parameters, gated);
    allocate_randomly(parameters, 1);
    testing::expect_layer_gradients(
        parameters,
        [&](const std::vector<Variable>& v) { return layer(v[0], training); },
        {random_tensor(input, 2)});
  }
}

TEST(FineTuning, AttentionGradientsMatchNumericalGradients) {
  Parameters parameters = parameters_with(adapters(0.4));
  const MultiHeadAttention layer(Scope(parameters).child("layer"),
                                 {.width = width, .heads = 2, .dim = 3},
                                 std::make_unique<SoftmaxAttention>(0.3));
  allocate_randomly(parameters, 1);
  ForwardContext pass = training;
  pass.time = replicate_sequence(5);
  pass.memory = replicate_sequence(3);
  testing::expect_layer_gradients(
      parameters,
      [&](const std::vector<Variable>& v) { return layer(v[0], v[1], AttentionContext(), pass); },
      {random_tensor(input, 2), random_tensor({2, 3, width}, 3)});
}

// Separate products with zero adapters equal the fused ones.
TEST(FineTuning, ZeroAdaptersKeepFeedForwardOutput) {
  for (const bool gated : {false, true}) {
    Parameters plain = parameters_with({});
    Parameters adapted = parameters_with(adapters());
    const FeedForward one = feed_forward(plain, gated);
    const FeedForward other = feed_forward(adapted, gated);
    plain.allocate(Random(1));
    adapted.allocate(Random(1));
    const Variable x(random_tensor(input, 2));
    expect_close(values_of(other(x, training).value()), values_of(one(x, training).value()), 1e-13);
  }
}

// W + factor B A in place of W gives the outputs of the adapted layers.
TEST(FineTuning, MergedWeightsMatchAdaptedLayers) {
  Parameters adapted = parameters_with(adapters());
  Parameters merged = parameters_with({});
  const FeedForward one = feed_forward(adapted, true);
  const FeedForward other = feed_forward(merged, true);
  allocate_randomly(adapted, 1);
  merged.allocate(Random(1));
  for (const auto& parameter : merged.all()) {
    parameter->master.copy_from(adapted.named(parameter->name).master);
    const std::string layer = parameter->name.substr(0, parameter->name.rfind('/'));
    const Weight down = adapted.find(layer + "/adapter/down");
    if (!down || !parameter->name.ends_with("weight")) continue;
    const Tensor up = adapted.named(layer + "/adapter/up").master.clone();
    on(backend_device(), [&](auto backend) {
      scale(backend, 1.5, up, up);
      matmul(backend, {.a = up, .b = down->master, .c = parameter->master, .accumulate = true});
    });
  }
  const Variable x(random_tensor(input, 2));
  expect_close(values_of(one(x, {}).value()), values_of(other(x, {}).value()), 1e-12);
}

// A linear layer with a frozen weight does not save its input.
TEST(FineTuning, FrozenLayersSaveNoInput) {
  const Device device = Device::cpu();
  const auto kept = [&](const FineTuning& tuning) {
    Parameters parameters(device, DType::f32, ProcessMesh(), {}, false, tuning);
    const FeedForward layer(Scope(parameters).child("layer"),
                            {.width = 16, .hidden = 64, .activation = Activation::gelu});
    parameters.allocate(Random(1));
    const auto live = [&] {
      return device.allocator()
          .report()
          .by_tag[static_cast<std::size_t>(MemoryTag::activations)]
          .live;
    };
    const std::int64_t before = live();
    const Variable x = Variable::leaf(Tensor::zeros({4, 32, 16}, DType::f32, device));
    Variable y = layer(add(x, x), {});
    return live() - before;
  };
  // Frozen: x and y of 8 kB each, and one of two hidden tensors of 32 kB. Otherwise x + x and the
  // second hidden tensor too.
  const std::int64_t rows = 4 * 32 * 4;
  EXPECT_EQ(kept({.frozen = {"layer"}}), rows * (16 + 16 + 64));
  EXPECT_EQ(kept({}), rows * (16 + 16 + 16 + 64 + 64));
}

TEST(FineTuning, RejectsOptionsThatMatchNoLayer) {
  const auto refusal = [](FineTuning tuning) -> std::string {
    Parameters parameters = parameters_with(tuning);
    try {
      const FeedForward layer = feed_forward(parameters, false);
      check_patterns_match(parameters);
    } catch (const ConfigurationError& error) {
      return error.what();
    }
    return "";
  };
  FineTuning tuning = adapters();
  EXPECT_EQ(refusal(tuning), "");
  tuning.adapters.layers = {"layer/out", "layer/queery"};
  EXPECT_EQ(
      refusal(tuning),
      "training.lora.target_modules: no linear layer name contains \"layer/queery\" (choices: "
      "layer/in, layer/out)");
  tuning = adapters();
  tuning.adapters.rank = 7;
  EXPECT_EQ(refusal(tuning),
            "training.lora.rank: expected at most 6 for linear layer layer/in with weight [7, 6], "
            "found 7");
  tuning = adapters();
  tuning.adapters.modules_to_save = {"norm"};
  EXPECT_EQ(refusal(tuning),
            "training.lora.modules_to_save: no parameter name contains \"norm\" (choices: "
            "layer/in/weight, layer/in/bias, layer/in/adapter/down, layer/in/adapter/up, "
            "layer/out/weight, layer/out/bias, layer/out/adapter/down, layer/out/adapter/up)");
  EXPECT_EQ(refusal({.frozen = {"layer"}}),
            "training.frozen_parameters leaves no parameter to train");
}

}  // namespace
}  // namespace longspan::fine_tuning_test
