// The transition by separable convolutions, as a layer.
#include "framework/nn/separable_convolution.h"

#include "tests/nn/layer_testing.h"
#include "tests/support/separable_reference.h"

namespace longspan::separable_convolution_test {
namespace {

using namespace longspan::testing;

constexpr std::int64_t batch = 3, time = 7, width = 4;

struct Built {
  Parameters parameters = one_process_parameters();
  std::unique_ptr<SeparableConvolution> layer;

  explicit Built(Activation activation = Activation::relu, bool bias = true) {
    layer = std::make_unique<SeparableConvolution>(
        Scope(parameters).child("layer"),
        SeparableConvolution::Options{.width = width,
                                      .hidden = 6,
                                      .kernel_sizes = {3, 5},
                                      .activation = activation,
                                      .bias = bias});
    allocate_randomly(parameters, 3);
  }
  Variable weight(const std::string& name) const {
    const Weight found = parameters.find("layer/" + name);
    return found ? found->variable : Variable();
  }
  SeparableWeights weights(const std::string& part) const {
    return {weight(part + "/depthwise"), weight(part + "/weight"), weight(part + "/bias")};
  }
};

AttentionContext context_of(bool causal) {
  AttentionContext context;
  context.mask.rules = causal ? masks::causal() : masks::everything();
  return context;
}

// Positions of documents of 1, 2, 3, ... tokens.
Tensor document_positions() {
  std::vector<std::int64_t> positions;
  for (std::int64_t row = 0; row < batch; ++row)
    for (std::int64_t begin = 0, length = 1; begin < time; begin += length++)
      for (std::int64_t i = 0; i < std::min(length, time - begin); ++i) positions.push_back(i);
  return Tensor::from<std::int64_t>(positions, {batch, time}, backend_device());
}

// The golden files check this function.
TEST(SeparableConvolutionLayer, MatchesSeparableTransition) {
  const Variable x(random_tensor({batch, time, width}, 1));
  const std::vector<std::int64_t> lengths = {time, 4, 0};
  std::vector<std::uint8_t> real;
  for (const std::int64_t length : lengths)
    for (std::int64_t i = 0; i < time; ++i) real.push_back(i < length ? 1 : 0);
  for (const bool bias : {true, false}) {
    const Built built(Activation::relu, bias);
    const auto expect_equal = [&](const AttentionContext& context,
                                  const SeparableOptions& options) {
      const Variable expected =
          separable_transition(x, built.weights("in"), built.weights("out"), options);
      expect_close(values_of((*built.layer)(x, context, ForwardContext()).value()),
                   values_of(expected.value()),
                   1e-13);
    };
    AttentionContext causal = context_of(true), everything = context_of(false);
    expect_equal(causal, {.padding = ConvolutionPadding::left});
    expect_equal(everything, {});
    causal.mask.max_lookback = document_positions();
    expect_equal(
        causal,
        {.padding = ConvolutionPadding::left, .document_position = causal.mask.max_lookback});
    everything.mask.key_length = ids_of(lengths);
    expect_equal(everything,
                 {.real = Tensor::from<std::uint8_t>(
                      real, {batch, time}, Device::cpu(), MemoryTag::workspace)});
  }
}

TEST(SeparableConvolutionLayer, GradientsMatchFiniteDifferences) {
  for (const bool causal : {true, false}) {
    Built built(Activation::gelu_tanh);
    AttentionContext context = context_of(causal);
    if (!causal) context.mask.key_length = ids_of({time, 4, 0});
    const ForwardContext pass = {.training = true, .random = Random(3)};
    expect_layer_gradients(built.parameters,
                           [&](const std::vector<Variable>& inputs) {
                             return (*built.layer)(inputs[0], context, pass);
                           },
                           {random_tensor({batch, time, width}, 1)});
  }
}

TEST(SeparableConvolutionLayer, RejectsBidirectionalDocuments) {
  const Built built;
  AttentionContext context = context_of(false);
  context.mask.max_lookback = document_positions();
  const Variable x(random_tensor({batch, time, width}, 1));
  EXPECT_THROW((*built.layer)(x, context, ForwardContext()), Failure);
}

}  // namespace
}  // namespace longspan::separable_convolution_test
