// Layers that process their rows in chunks have the same results as in one piece.
#include "framework/nn/embedding.h"
#include "tests/nn/layer_testing.h"

namespace longspan::chunks_test {
namespace {

using testing::expect_close;
using testing::one_process_parameters;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

constexpr std::int64_t batch = 3;
constexpr std::int64_t time = 5;
constexpr std::int64_t width = 4;

// The value of layer(x) with `chunks`, and the gradients of x and of each parameter.
template <typename Make>
std::vector<Values> everything(const Make& make, std::int64_t chunks) {
  Parameters parameters = one_process_parameters();
  const auto layer = make(parameters, chunks);
  testing::allocate_randomly(parameters, 1);
  const Variable x = Variable::leaf(random_tensor({batch, time, width}, 2));
  const Variable y = layer(x);
  backward({y}, {random_tensor(y.shape(), 3)});
  std::vector<Values> found = {values_of(y.value()), values_of(x.gradient())};
  for (const auto& parameter : parameters.all())
    found.push_back(values_of(parameter->variable.gradient()));
  return found;
}

template <typename Make>
void expect_chunks_change_nothing(const Make& make) {
  const auto whole = everything(make, 1);
  for (const std::int64_t chunks : {2, 3, 7, 15, 100}) {
    SCOPED_TRACE(chunks);
    const auto cut = everything(make, chunks);
    ASSERT_EQ(cut.size(), whole.size());
    for (std::size_t i = 0; i < cut.size(); ++i) expect_close(cut[i], whole[i], 1e-12);
  }
}

TEST(ChunkedLayers, FeedForwardChunksChangeNothing) {
  for (const Activation activation : {Activation::relu, Activation::gelu})
    // Consecutive positions from the first, and those of a rank with other positions.
    for (const SequenceShard& division :
         {SequenceShard(), SequenceShard{.total = 11, .shares = {{{2, 4}, {7, 10}}}}})
      expect_chunks_change_nothing([&](Parameters& parameters, std::int64_t chunks) {
        const FeedForward layer(Scope(parameters),
                                {.width = width,
                                 .hidden = 6,
                                 .activation = activation,
                                 .dropout = 0.3,
                                 .chunks = chunks});
        const ForwardContext pass = {
            .training = true, .random = Random(4), .first_stream = 2, .time = division};
        return [layer, pass](const Variable& x) { return layer(x, pass); };
      });
}

TEST(ChunkedLayers, FeedForwardGradientsMatchNumericalGradients) {
  Parameters parameters = one_process_parameters();
  const FeedForward layer(
      Scope(parameters),
      {.width = width, .hidden = 6, .activation = Activation::gelu, .dropout = 0.3, .chunks = 4});
  testing::allocate_randomly(parameters, 1);
  const ForwardContext pass = {.training = true, .random = Random(4)};
  testing::expect_layer_gradients(parameters,
                                  [&](const std::vector<Variable>& v) { return layer(v[0], pass); },
                                  {random_tensor({batch, time, width}, 2)});
}

Tensor some_targets() {
  Tensor targets = Tensor::empty({batch, time}, DType::i64, testing::backend_device());
  for (std::int64_t i = 0; i < targets.elements(); ++i)
    targets.data<std::int64_t>()[i] = i % 4 == 3 ? -1 : (5 * i) % 7;
  return targets;
}

LMHead output_layer(Parameters& parameters, std::int64_t chunks) {
  return {Scope(parameters), {.vocabulary = 7, .width = width, .chunks = chunks}};
}

TEST(ChunkedLayers, LossChunksChangeNothing) {
  expect_chunks_change_nothing([](Parameters& parameters, std::int64_t chunks) {
    return [layer = output_layer(parameters, chunks)](const Variable& x) {
      return layer.losses(x, some_targets());
    };
  });
}

TEST(ChunkedLayers, LossGradientsMatchNumericalGradients) {
  Parameters parameters = one_process_parameters();
  const LMHead layer = output_layer(parameters, 4);
  testing::allocate_randomly(parameters, 1);
  testing::expect_layer_gradients(
      parameters,
      [&](const std::vector<Variable>& v) { return layer.losses(v[0], some_targets()); },
      {random_tensor({batch, time, width}, 2)});
}

// The peak of additional activation bytes over a forward and a backward pass.
std::int64_t peak(const std::function<Variable(const Variable&)>& layer, const Device& device) {
  const Variable x = Variable::leaf(Tensor::zeros({4, 256, 16}, DType::f32, device));
  const auto activations = [&] {
    return device.allocator().report().by_tag[static_cast<std::size_t>(MemoryTag::activations)];
  };
  const std::int64_t before = activations().live;
  device.allocator().reset_peak();
  backward(sum(layer(x)));
  return activations().peak - before;
}

TEST(ChunkedLayers, ReducesPeakActivationMemory) {
  const Device device = Device::cpu();
  const auto feed_forward = [&](std::int64_t chunks) {
    Parameters parameters(device, DType::f32, ProcessMesh());
    const FeedForward layer(Scope(parameters), {.width = 16, .hidden = 256, .chunks = chunks});
    parameters.allocate(Random(1));
    return peak([&](const Variable& x) { return layer(x, ForwardContext()); }, device);
  };
  EXPECT_LT(feed_forward(16), feed_forward(1) / 4);
  const Tensor targets = Tensor::empty({4, 256}, DType::i64, device);
  for (std::int64_t i = 0; i < targets.elements(); ++i) targets.data<std::int64_t>()[i] = i % 512;
  const auto output = [&](std::int64_t chunks) {
    Parameters parameters(device, DType::f32, ProcessMesh());
    const LMHead layer(Scope(parameters), {.vocabulary = 512, .width = 16, .chunks = chunks});
    parameters.allocate(Random(1));
    return peak([&](const Variable& x) { return layer.losses(x, targets); }, device);
  };
  EXPECT_LT(output(16), output(1) / 4);
}

}  // namespace
}  // namespace longspan::chunks_test
