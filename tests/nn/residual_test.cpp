// Memory modes change neither outputs nor gradients.
#include "framework/core/allocator.h"
#include "framework/kernels/elementwise.h"
#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/relative_attention.h"
#include "framework/nn/positions.h"
#include "framework/nn/residual/gated.h"
#include "framework/nn/residual/reversible.h"
#include "tests/nn/layer_testing.h"

namespace longspan::residual_test {
namespace {

using testing::backend_device;
using testing::expect_close;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

constexpr std::int64_t batch = 2;
constexpr std::int64_t time = 3;
constexpr std::int64_t memory_rows = 2;
constexpr std::int64_t width = 6;
constexpr std::int64_t heads = 2;
constexpr std::int64_t dim = 3;
constexpr double rate = 0.25;

const ForwardContext training_pass = {.training = true, .random = Random(9), .first_stream = 3};

// Layers of relative attention and feed-forward. They share position biases and may have gates.
struct Stack {
  Parameters parameters;
  std::optional<Gate::Options> gates;
  std::vector<Layer> layers;

  explicit Stack(std::int64_t count,
                 DType dtype = DType::f64,
                 const std::optional<Gate::Options>& of_gates = std::nullopt)
      : parameters(backend_device(), dtype, ProcessMesh()), gates(of_gates) {
    const Scope scope(parameters);
    const Initializer initial = Initializer::normal(0.4);
    const PositionBiases biases(scope, heads, dim, initial);
    for (std::int64_t i = 0; i < count; ++i) add_layer(scope.child(i), biases, initial);
    parameters.allocate(Random(1));
  }

  void add_layer(const Scope& scope, const PositionBiases& biases, const Initializer& initial) {
    const auto attention = std::make_shared<MultiHeadAttention>(
        scope.child("attention"),
        MultiHeadAttention::Options{.width = width, .heads = heads, .dim = dim, .initial = initial},
        std::make_unique<RelativeAttention>(
            scope.child("attention"),
            RelativeAttention::Options{
                .width = width, .heads = heads, .dim = dim, .dropout = rate, .initial = initial},
            biases));
    const auto feed =
        std::make_shared<FeedForward>(scope.child("feed"),
                                      FeedForward::Options{.width = width,
                                                           .hidden = 8,
                                                           .activation = Activation::gelu,
                                                           .dropout = rate,
                                                           .initial = initial});
    layers.push_back(
        {{{.norm = Norm(scope.child("norm0"), width),
           .reads = Reads::memory,
           .run =
               [attention](
                   const Variable& x, const SublayerInputs& reads, const ForwardContext& pass) {
                 return (*attention)(x, reads.memory, reads.context, pass);
               }},
          {.norm = Norm(scope.child("norm1"), width),
           .run = [feed](const Variable& x, const SublayerInputs&, const ForwardContext& pass) {
             return (*feed)(x, pass);
           }}}});
    if (!gates) return;
    for (std::size_t i = 0; i < 2; ++i)
      layers.back().sublayers[i].gate =
          std::make_shared<const Gate>(scope.child("gate" + std::to_string(i)), *gates);
  }
};

AttentionContext context_of(std::int64_t remembered, DType dtype = DType::f64) {
  AttentionContext context;
  context.mask.query_begin = remembered;
  context.distances = Variable(
      sinusoids(SinusoidLayout::halves, 0, time + remembered, width, -1, dtype, backend_device()));
  return context;
}

std::vector<Variable> memories_of(std::size_t count) {
  std::vector<Variable> memories;
  for (std::size_t i = 0; i < count; ++i)
    memories.emplace_back(random_tensor({batch, memory_rows, width}, 50 + i));
  return memories;
}

// Returns the layers' inputs, the output and every gradient of one pass. Expects one call of each
// parameter's gradient hook.
std::vector<Values> pass_through(Stack& stack, const Residual& residual, bool remembers) {
  const Variable x = Variable::leaf(random_tensor({batch, time, width}, 2));
  StackInputs reads = {.context = context_of(remembers ? memory_rows : 0)};
  if (remembers) reads.memories = memories_of(stack.layers.size());
  std::vector<Values> found;
  const Variable y = residual.run(
      stack.layers, x, reads, training_pass, {.input = [&](std::size_t layer, const Tensor& input) {
        EXPECT_EQ(found.size(), layer) << "each layer's input is given once";
        found.push_back(values_of(input));
      }});
  found.push_back(values_of(y.value()));
  stack.parameters.clear_gradients();
  std::vector<int> announced(stack.parameters.all().size(), 0);
  for (std::size_t i = 0; i < announced.size(); ++i)
    stack.parameters.all()[i]->variable.register_gradient_hook([&, i] { ++announced[i]; });
  backward({y}, {random_tensor(y.shape(), 3)});
  EXPECT_EQ(announced, std::vector<int>(announced.size(), 1));
  found.push_back(values_of(x.gradient()));
  for (const auto& parameter : stack.parameters.all())
    found.push_back(values_of(parameter->variable.gradient()));
  return found;
}

void expect_same(const std::vector<Values>& found, const std::vector<Values>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) expect_close(found[i], expected[i], 1e-11);
}

TEST(StandardResidual, RecomputationMatchesStored) {
  Stack stack(3);
  for (const NormPosition norm : {NormPosition::pre, NormPosition::post}) {
    for (const bool remembers : {false, true}) {
      const auto plain = pass_through(stack, StandardResidual(norm, rate), remembers);
      for (const Recomputation& again : {Recomputation::selective(),
                                         Recomputation::every(1),
                                         Recomputation::every(2),
                                         Recomputation::every(100)}) {
        SCOPED_TRACE(again.num_layers);
        expect_same(pass_through(stack, StandardResidual(norm, rate, again), remembers), plain);
      }
    }
  }
}

const Gate::Options gru = {.kind = GateKind::gru, .width = width};

TEST(GatedResidual, RecomputationMatchesStored) {
  Stack stack(3, DType::f64, gru);
  for (const bool remembers : {false, true}) {
    const auto plain = pass_through(stack, GatedResidual({.dropout = rate}), remembers);
    for (const Recomputation& again :
         {Recomputation::selective(), Recomputation::every(1), Recomputation::every(2)}) {
      SCOPED_TRACE(again.num_layers);
      const GatedResidual residual({.dropout = rate, .again = again});
      expect_same(pass_through(stack, residual, remembers), plain);
    }
  }
}

// The norm also applies to memories.
TEST(GatedResidual, MatchesPaperEquations) {
  Stack stack(1, DType::f64, gru);
  const Variable x(random_tensor({batch, time, width}, 2));
  const AttentionContext context = context_of(memory_rows);
  const std::vector<Variable> memories = memories_of(1);
  const auto& sublayers = stack.layers[0].sublayers;
  const SublayerInputs seen = {.memory = sublayers[0].norm(memories[0]), .context = context};
  const auto relu = [](const Variable& y) { return activate(Activation::relu, y); };
  const Variable y = (*sublayers[0].gate)(
      x, relu(sublayers[0].run(sublayers[0].norm(x), seen, ForwardContext().child(0).child(0))));
  const Variable e = (*sublayers[1].gate)(
      y, relu(sublayers[1].run(sublayers[1].norm(y), {}, ForwardContext().child(0).child(1))));
  const GatedResidual residual({.dropout = rate});
  const Variable found =
      residual.run(stack.layers, x, {.memories = memories, .context = context}, ForwardContext());
  expect_close(values_of(found.value()), values_of(e.value()), 1e-14);
}

// Gates are sums with sublayers that return 0, or their biases close them.
TEST(GatedResidual, ClosedGatesPassInputThrough) {
  for (const Gate::Options& gates :
       {Gate::Options{.kind = GateKind::sum, .width = width},
        Gate::Options{.kind = GateKind::gru, .width = width, .bias = 50}}) {
    Stack stack(3, DType::f64, gates);
    if (gates.kind == GateKind::sum)
      for (const auto& parameter : stack.parameters.all())
        if (parameter->name.find("/out/") != std::string::npos)
          parameter->master.copy_from(
              Tensor::zeros(parameter->shape, DType::f64, backend_device()));
    const Variable x(random_tensor({batch, time, width}, 2));
    const Variable y =
        GatedResidual({}).run(stack.layers, x, {.context = context_of(0)}, ForwardContext());
    expect_close(values_of(y.value()), values_of(x.value()), 1e-6);
  }
}

TEST(GatedResidual, ReportsSublayerWithoutGate) {
  Stack stack(1);
  stack.layers[0].sublayers[0].name = "layers/0/attention";
  const Variable x(random_tensor({batch, time, width}, 2));
  try {
    GatedResidual({}).run(stack.layers, x, {.context = context_of(0)}, ForwardContext());
    FAIL() << "nothing was refused";
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(),
                 "layers/0/attention: a gated residual requires a gate for each "
                 "sublayer");
  }
}

TEST(ReversibleResidual, ReconstructedStreamsMatchStored) {
  using Streams = ReversibleResidual::Streams;
  Stack stack(3);
  for (const StreamMerge join : {StreamMerge::mean, StreamMerge::concatenate})
    for (const bool remembers : {false, true})
      expect_same(pass_through(stack, ReversibleResidual(join, rate, Streams::rebuilt), remembers),
                  pass_through(stack, ReversibleResidual(join, rate, Streams::kept), remembers));
}

TEST(ReversibleResidual, GradientMatchesFiniteDifferences) {
  Stack stack(2);
  const ReversibleResidual residual(StreamMerge::mean, rate);
  testing::expect_layer_gradients(
      stack.parameters,
      [&](const std::vector<Variable>& v) {
        return residual.run(stack.layers,
                            v[0],
                            {.memories = memories_of(2), .context = context_of(memory_rows)},
                            training_pass);
      },
      {random_tensor({batch, time, width}, 2)},
      {.directions = 1, .elements = 1});
}

TEST(ReversibleResidual, MatchesReformerEquations) {
  Stack stack(1);
  const Variable x(random_tensor({batch, time, width}, 2));
  const AttentionContext context = context_of(0);
  const auto& sublayers = stack.layers[0].sublayers;
  const Variable y1 =
      add(x,
          sublayers[0].run(
              sublayers[0].norm(x), {.context = context}, ForwardContext().child(0).child(0)));
  const Variable y2 =
      add(x,
          sublayers[1].run(
              sublayers[1].norm(y1), {.context = context}, ForwardContext().child(0).child(1)));
  Values joined = values_of(y1.value());
  const Values second = values_of(y2.value());
  for (std::size_t i = 0; i < joined.size(); ++i) joined[i] = (joined[i] + second[i]) / 2;
  const Variable y = ReversibleResidual(StreamMerge::mean, rate)
                         .run(stack.layers, x, {.context = context}, ForwardContext());
  expect_close(values_of(y.value()), joined, 1e-14);
  const Variable both = ReversibleResidual(StreamMerge::concatenate, rate)
                            .run(stack.layers, x, {.context = context}, ForwardContext());
  ASSERT_EQ(both.shape(), Shape({batch, time, 2 * width}));
  for (std::int64_t row = 0; row < batch * time; ++row)
    for (std::int64_t i = 0; i < width; ++i) {
      const auto at = static_cast<std::size_t>(2 * row * width + i);
      const auto from = static_cast<std::size_t>(row * width + i);
      EXPECT_EQ(values_of(both.value())[at], values_of(y1.value())[from]);
      EXPECT_EQ(values_of(both.value())[at + width], second[from]);
    }
}

TEST(ReversibleResidual, ReconstructsTwelveLayersInSinglePrecision) {
  for (const DType compute : {DType::f32, DType::bf16}) {
    Stack stack(12, compute);
    ForwardContext pass = training_pass;
    pass.reconstruction = std::make_shared<ReconstructionError>();
    const Tensor wide = random_tensor({batch, time, width}, 2);
    const Variable x = cast(Variable::leaf(wide), compute);
    const Variable y = ReversibleResidual(StreamMerge::mean, rate)
                           .run(stack.layers, x, {.context = context_of(0, compute)}, pass);
    const auto largest = [&] {
      return pass.reconstruction->largest(stack.parameters.mesh().world, backend_device());
    };
    EXPECT_EQ(largest(), 0) << "nothing was rebuilt yet";
    backward(sum(y));
    // Sums of a few bf16 numbers are exact in f32.
    EXPECT_EQ(largest() > 0, compute == DType::f32);
    EXPECT_LT(largest(), 1e-5);
  }
}

// A decision that changes with each call.
struct Chooser {
  std::shared_ptr<int> made = std::make_shared<int>(0);

  Layer layer(Parameters& parameters) const {
    const auto choose = [count = made](
                            const Variable& x, const SublayerInputs&, const ForwardContext& pass) {
      const Tensor factor = pass.decide(
          [&] { return testing::tensor_of<double>(Values{static_cast<double>(++*count)}, {1}); });
      const double by = *factor.data<double>();
      const auto scaled = [by](const Tensor& from) {
        const Tensor to = from.empty_like();
        scale(testing::cpu(), by, from, to);
        return to;
      };
      return record(scaled(x.value()), {x}, [scaled](BackwardContext& gradients) {
        gradients.set(0, scaled(gradients.output()));
      });
    };
    return {{{.norm = Norm(Scope(parameters).child(std::to_string(parameters.all().size())), width),
              .reads = Reads::memory,
              .run = choose}}};
  }
};

TEST(Residual, RecomputationReusesDecisions) {
  const auto run = [](const Residual& residual, int layers) {
    Parameters parameters = testing::one_process_parameters();
    Chooser chooser;
    std::vector<Layer> stack;
    for (int i = 0; i < layers; ++i) stack.push_back(chooser.layer(parameters));
    parameters.allocate(Random(1));
    const Variable x = Variable::leaf(random_tensor({batch, time, width}, 2));
    backward(sum(residual.run(stack, x, {}, training_pass)));
    EXPECT_EQ(*chooser.made, layers);
    return values_of(x.gradient());
  };
  const Values plain = run(StandardResidual(NormPosition::pre, 0), 4);
  for (const Recomputation& again :
       {Recomputation::selective(), Recomputation::every(1), Recomputation::every(3)})
    expect_close(run(StandardResidual(NormPosition::pre, 0, again), 4), plain, 1e-12);
  expect_close(run(ReversibleResidual(StreamMerge::mean, 0), 4),
               run(ReversibleResidual(StreamMerge::mean, 0, ReversibleResidual::Streams::kept), 4),
               1e-12);
}

std::int64_t activation_bytes() {
  return backend_device()
      .allocator()
      .report()
      .by_tag[static_cast<std::size_t>(MemoryTag::activations)]
      .live;
}

// Activation bytes stored at the end of a forward pass.
std::int64_t held(const Residual& residual, std::int64_t layers) {
  Stack stack(layers);
  const Variable x = Variable::leaf(random_tensor({batch, time, width}, 2));
  const AttentionContext context = context_of(0);
  const std::int64_t before = activation_bytes();
  const Variable y = residual.run(stack.layers, x, {.context = context}, training_pass);
  return activation_bytes() - before;
}

TEST(Residual, StoresOneTensorPerGroupAndNoneIfReversible) {
  const std::int64_t before = activation_bytes();
  const Tensor one = random_tensor({batch, time, width}, 2);
  const std::int64_t stored = activation_bytes() - before;
  const StandardResidual layer(NormPosition::pre, rate, Recomputation::every(1));
  EXPECT_EQ(held(layer, 6) - held(layer, 3), 3 * stored);
  const StandardResidual third(NormPosition::pre, rate, Recomputation::every(3));
  EXPECT_EQ(held(third, 6) - held(third, 3), stored);
  const ReversibleResidual reversible(StreamMerge::mean, rate);
  EXPECT_EQ(held(reversible, 6), held(reversible, 3));
  const StandardResidual plain(NormPosition::pre, rate);
  const StandardResidual attention(NormPosition::pre, rate, Recomputation::selective());
  EXPECT_LT(held(attention, 3), held(plain, 3));
}

// The second sublayer adds tensors of different shapes.
TEST(Residual, ReportsFailingSublayer) {
  Stack stack(1);
  const auto wrong = [](const Variable& x, const SublayerInputs&, const ForwardContext&) {
    return add(x, reshape(x, {batch * time, width}));
  };
  stack.layers[0].sublayers[1].run = wrong;
  stack.layers[0].sublayers[1].name = "layers/0/feed_forward";
  const std::string expected = "layers/0/feed_forward: cannot ";
  const Variable x(random_tensor({batch, time, width}, 2));
  const StandardResidual plain(NormPosition::pre, 0);
  const StandardResidual again(NormPosition::pre, 0, Recomputation::every(1));
  const ReversibleResidual reversible(StreamMerge::mean, 0);
  for (const Residual* residual :
       std::initializer_list<const Residual*>{&plain, &again, &reversible})
    try {
      residual->run(stack.layers, x, {.context = context_of(0)}, training_pass);
      FAIL() << "nothing was refused";
    } catch (const Failure& failure) {
      EXPECT_EQ(std::string(failure.what()).substr(0, expected.size()), expected);
    }
}

// Callers catch OutOfMemory by its type and add a hint.
TEST(Residual, PropagatesOutOfMemory) {
  Stack stack(1);
  stack.layers[0].sublayers[1].name = "layers/0/feed_forward";
  stack.layers[0].sublayers[1].run =
      [](const Variable&, const SublayerInputs&, const ForwardContext&) -> Variable {
    throw OutOfMemory("no memory", AllocatorKind::memory, 1e9);
  };
  const StandardResidual plain(NormPosition::pre, 0);
  EXPECT_THROW(plain.run(stack.layers,
                         Variable(random_tensor({batch, time, width}, 2)),
                         {.context = context_of(0)},
                         training_pass),
               OutOfMemory);
}

}  // namespace
}  // namespace longspan::residual_test
