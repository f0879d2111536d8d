// Tensor-parallel layers match one process: initial weights, outputs, gradients.
#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/lsh_attention.h"
#include "framework/nn/attention/relative_attention.h"
#include "framework/nn/attention/softmax_attention.h"
#include "framework/nn/embedding.h"
#include "framework/nn/layers.h"
#include "framework/nn/positions.h"
#include "tests/kernels/kernel_testing.h"
#include "tests/support/mesh_runner.h"

namespace longspan::layers_mesh_test {
namespace {

using testing::backend_device;
using testing::expect_close;
using testing::tensor_of;
using testing::values_of;

const std::vector<MeshShape> tensor_layouts = {
    {}, {.tensor = 2}, {.data = 2, .tensor = 2}, {.tensor = 4}};

Tensor random_tensor(const Shape& shape, std::uint64_t seed) {
  return tensor_of<double>(testing::normal_values<double>(shape.elements(), seed), shape);
}

// Returns this rank's shard of a full tensor.
Tensor piece_of(const Tensor& whole, const Parameter& parameter) {
  if (!parameter.split()) return whole;
  const Tensor result = Tensor::empty(parameter.shape, DType::f64, backend_device());
  std::int64_t inner = 1;
  for (int axis = parameter.split_axis + 1; axis < whole.shape().dimensions(); ++axis)
    inner *= whole.shape()[axis];
  const std::int64_t run = inner * parameter.part.count;
  const std::int64_t whole_run = inner * parameter.part.total;
  for (std::int64_t i = 0; i * whole_run < whole.elements(); ++i)
    std::copy_n(whole.data<double>() + i * whole_run + parameter.part.begin * inner,
                run,
                result.data<double>() + i * run);
  return result;
}

using Run = std::function<Variable(const Variable& x, const ForwardContext& pass)>;
using Build = std::function<Run(const Scope& scope)>;

template <typename Layer, typename Call>
Run built(std::shared_ptr<Layer> layer, Call call) {
  return [layer, call](const Variable& x, const ForwardContext& pass) {
    return call(*layer, x, pass);
  };
}

// Compares a layer on one process and on each layout: initial weights, output, all gradients.
void expect_same_on_all_layouts(const Build& build, const Shape& input) {
  const Tensor x = random_tensor(input, 1);
  const ForwardContext pass = {.training = true, .random = Random(5)};
  const auto run = [&](Parameters& parameters) {
    const Run layer = build(Scope(parameters).child("layer"));
    parameters.allocate(Random(3));
    // Biases start at 0, which would hide errors.
    for (const auto& parameter : parameters.all())
      if (parameter->global_shape.dimensions() == 1)
        parameter->master.copy_from(
            piece_of(random_tensor(parameter->global_shape, 8), *parameter));
    const Variable leaf = Variable::leaf(x.clone());
    const Variable y = layer(leaf, pass);
    const Tensor value = y.value().clone();
    backward({y}, {random_tensor(y.shape(), 2)});
    return std::pair(value, leaf.gradient());
  };
  testing::for_each_layout(tensor_layouts, [&](const ProcessMesh& mesh) {
    SCOPED_TRACE(testing::to_string(mesh.shape));
    Parameters whole(backend_device(), DType::f64, ProcessMesh());
    const auto [expected, expected_dx] = run(whole);
    Parameters parts(backend_device(), DType::f64, mesh);
    const auto [found, dx] = run(parts);
    expect_close(values_of(found), values_of(expected), 1e-12);
    if (expected_dx.defined()) expect_close(values_of(dx), values_of(expected_dx), 1e-12);
    EXPECT_EQ(parts.global_elements(), whole.global_elements());
    for (const auto& parameter : parts.all()) {
      SCOPED_TRACE(parameter->name);
      const Parameter& undivided = whole.named(parameter->name);
      EXPECT_TRUE(testing::same_bits(parameter->master, piece_of(undivided.master, *parameter)));
      expect_close(values_of(parameter->gradient),
                   values_of(piece_of(undivided.gradient, *parameter)),
                   1e-12);
    }
  });
}

TEST(TensorParallelLayers, FeedForwardMatchesSingleProcess) {
  // 10 hidden features: 2, 3, 2, 3 on four ranks. 1: the last rank has all of them.
  for (const std::int64_t hidden : {10, 1})
    for (const Activation activation : {Activation::relu, Activation::gelu})
      expect_same_on_all_layouts(
          [&](const Scope& scope) {
            return built(
                std::make_shared<FeedForward>(
                    scope,
                    FeedForward::Options{
                        .width = 6, .hidden = hidden, .activation = activation, .dropout = 0.3}),
                [](const FeedForward& layer, const Variable& x, const ForwardContext& pass) {
                  return layer(x, pass);
                });
          },
          {2, 3, 6});
}

TEST(TensorParallelLayers, AttentionMatchesSingleProcess) {
  expect_same_on_all_layouts(
      [](const Scope& scope) {
        return built(
            std::make_shared<MultiHeadAttention>(
                scope,
                MultiHeadAttention::Options{
                    .width = 6, .heads = 4, .dim = 3, .initial = Initializer::normal(0.5)},
                std::make_unique<SoftmaxAttention>(0.3)),
            [](const MultiHeadAttention& layer, const Variable& x, const ForwardContext& pass) {
              return layer(x, Variable(), AttentionContext(), pass);
            });
      },
      {2, 3, 6});
}

TEST(TensorParallelLayers, LshAttentionMatchesSingleProcess) {
  expect_same_on_all_layouts(
      [](const Scope& scope) {
        return built(
            std::make_shared<MultiHeadAttention>(
                scope,
                MultiHeadAttention::Options{
                    .width = 6, .heads = 4, .dim = 3, .initial = Initializer::normal(0.5)},
                std::make_unique<LshAttention>(
                    scope,
                    LshAttention::Options{
                        .lsh = {.chunk = 4, .rounds = 3}, .heads = 4, .dropout = 0.3})),
            [](const MultiHeadAttention& layer, const Variable& x, const ForwardContext& pass) {
              return layer(x, Variable(), AttentionContext(), pass);
            });
      },
      {2, 19, 6});
}

TEST(TensorParallelLayers, RelativeAttentionWithMemoryMatchesSingleProcess) {
  expect_same_on_all_layouts(
      [](const Scope& scope) {
        auto mechanism = std::make_unique<RelativeAttention>(
            scope,
            RelativeAttention::Options{.width = 6,
                                       .heads = 4,
                                       .dim = 3,
                                       .dropout = 0.3,
                                       .initial = Initializer::normal(0.5)},
            PositionBiases(scope, 4, 3, Initializer::normal(0.5)));
        return built(
            std::make_shared<MultiHeadAttention>(
                scope,
                MultiHeadAttention::Options{.width = 6,
                                            .heads = 4,
                                            .dim = 3,
                                            .bias = false,
                                            .initial = Initializer::normal(0.5)},
                std::move(mechanism)),
            [](const MultiHeadAttention& layer, const Variable& x, const ForwardContext& pass) {
              AttentionContext context;
              context.mask.query_begin = 2;
              context.distances = Variable(
                  sinusoids(SinusoidLayout::halves, 0, 5, 6, -1, DType::f64, backend_device()));
              return layer(x, Variable(random_tensor({2, 2, 6}, 9)), context, pass);
            });
      },
      {2, 3, 6});
}

TEST(TensorParallelLayers, UnevenVocabularyMatchesSingleProcess) {
  for (const std::int64_t vocabulary : {3, 5, 8}) {
    struct Ends {
      TokenEmbedding words;
      LMHead output;
    };
    const Tensor tokens = Tensor::empty({2, 3}, DType::i64, backend_device());
    for (std::int64_t i = 0; i < 6; ++i) tokens.data<std::int64_t>()[i] = (i * i) % vocabulary;
    expect_same_on_all_layouts(
        [&](const Scope& scope) {
          TokenEmbedding words(scope.child("embedding"), vocabulary, 6, Initializer::normal(1));
          LMHead output(
              scope.child("output"), {.vocabulary = vocabulary, .width = 6}, words.table());
          return built(std::make_shared<Ends>(Ends{std::move(words), std::move(output)}),
                       [tokens](const Ends& ends, const Variable& x, const ForwardContext&) {
                         return ends.output.losses(add(x, ends.words(tokens, 2)), tokens);
                       });
        },
        {2, 3, 6});
  }
}

TEST(TensorParallelLayers, RejectsIndivisibleHeadCount) {
  testing::for_each_layout({{.tensor = 4}}, [](const ProcessMesh& mesh) {
    Parameters parameters(backend_device(), DType::f64, mesh);
    EXPECT_THROW(MultiHeadAttention(Scope(parameters),
                                    {.width = 6, .heads = 6, .dim = 1},
                                    std::make_unique<SoftmaxAttention>(0)),
                 ConfigurationError);
  });
}

}  // namespace
}  // namespace longspan::layers_mesh_test
