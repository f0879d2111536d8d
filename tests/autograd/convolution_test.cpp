// Convolutions over time, by the separable convolutions made of them.
#include "tests/support/gradient_check.h"
#include "tests/support/separable_reference.h"

namespace longspan::convolution_test {
namespace {

using namespace longspan::testing;

constexpr std::int64_t channels = 3;
constexpr ConvolutionPadding paddings[] = {ConvolutionPadding::same, ConvolutionPadding::left};

Tensor bytes_of(const std::vector<std::uint8_t>& values, const Shape& shape) {
  return Tensor::from<std::uint8_t>(values, shape, Device::cpu(), MemoryTag::workspace);
}

// D1, P1, b1, D2, P2, b2.
std::vector<Tensor> weights(std::int64_t first = 3, std::int64_t second = 5) {
  return {random_tensor({channels, first}, 11),
          random_tensor({4, channels}, 12),
          random_tensor({4}, 13),
          random_tensor({4, second}, 14),
          random_tensor({2, 4}, 15),
          random_tensor({2}, 16)};
}

Variable transition(const Variable& x,
                    const std::vector<Variable>& w,
                    const SeparableOptions& options) {
  return separable_transition(x, {w[0], w[1], w[2]}, {w[3], w[4], w[5]}, options);
}

Values transition_of(const Tensor& x,
                     const std::vector<Tensor>& given,
                     const SeparableOptions& options) {
  const NoGradGuard unrecorded;
  std::vector<Variable> w;
  for (const Tensor& weight : given) w.emplace_back(weight);
  return values_of(transition(Variable(x), w, options).value());
}

// Positions of tokens from the starts of their documents, which taps of earlier tokens respect.
SeparableOptions with_documents(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> position;
  for (const std::int64_t length : lengths)
    for (std::int64_t i = 0; i < length; ++i) position.push_back(i);
  const Shape shape = {1, std::ssize(position)};
  return {.padding = ConvolutionPadding::left,
          .document_position = Tensor::from<std::int64_t>(position, shape, backend_device())};
}

TEST(SeparableTransition, GradientsMatchFiniteDifferences) {
  for (const ConvolutionPadding padding : paddings) {
    std::vector<Tensor> inputs = {random_tensor({2, 6, channels}, 1)};
    for (const Tensor& weight : weights()) inputs.push_back(weight);
    const auto check = [&](const SeparableOptions& options, const std::vector<Tensor>& of) {
      expect_gradients(
          [&](const std::vector<Variable>& all) {
            return transition(all[0], {all.begin() + 1, all.end()}, options);
          },
          of,
          {.step = 1e-6, .tolerance = 1e-7});
    };
    check({.padding = padding}, inputs);
    check({.padding = padding, .real = bytes_of({1, 1, 1, 1, 0, 0, 1, 0, 1, 1, 1, 1}, {2, 6})},
          inputs);
    inputs[0] = random_tensor({1, 6, channels}, 2);
    if (padding == ConvolutionPadding::left) check(with_documents({1, 3, 2}), inputs);
  }
}

// x_t = sum over the taps of their index times the input, without a mask.
TEST(SeparableConvolution, ReadsTheTokensOfItsTaps) {
  const Tensor x = tensor_of<double>({1, 10, 100, 1000, 10000}, {1, 5, 1});
  const auto convolved = [&](std::int64_t taps, ConvolutionPadding padding) {
    Values digits;
    for (std::int64_t tap = 1; tap <= taps; ++tap) digits.push_back(static_cast<double>(tap));
    const SeparableWeights of = {.depthwise = Variable(tensor_of<double>(digits, {1, taps})),
                                 .pointwise = Variable(tensor_of<double>({1}, {1, 1}))};
    return values_of(separable_convolution(Variable(x), of, {.padding = padding}).value());
  };
  EXPECT_EQ(convolved(3, ConvolutionPadding::same), (Values{32, 321, 3210, 32100, 21000}));
  EXPECT_EQ(convolved(3, ConvolutionPadding::left), (Values{3, 32, 321, 3210, 32100}));
  EXPECT_EQ(convolved(2, ConvolutionPadding::same), (Values{21, 210, 2100, 21000, 10000}));
  EXPECT_EQ(convolved(1, ConvolutionPadding::left), values_of(x));
  EXPECT_EQ(convolved(7, ConvolutionPadding::same)[0], 4 + 50 + 600 + 7000);
}

TEST(SeparableConvolution, CenteredDeltaIsMaskedIdentity) {
  const Tensor x = random_tensor({2, 4, 2}, 1);
  const SeparableWeights of = {
      .depthwise = Variable(tensor_of<double>({0, 0, 1, 0, 0, 0, 0, 1, 0, 0}, {2, 5})),
      .pointwise = Variable(tensor_of<double>({1, 0, 0, 1}, {2, 2}))};
  const Values y = values_of(
      separable_convolution(Variable(x), of, {.real = bytes_of({1, 0, 1, 1, 1, 1, 0, 0}, {2, 4})})
          .value());
  const std::vector<bool> real = {true, false, true, true, true, true, false, false};
  for (std::size_t i = 0; i < y.size(); ++i)
    EXPECT_EQ(y[i], real[i / 2] ? values_of(x)[i] : 0) << i;
}

TEST(SeparableTransition, LeftPaddingDoesNotReadLaterTokens) {
  const Tensor x = random_tensor({1, 9, channels}, 1), changed = x.clone();
  changed.data<double>()[4 * channels] += 1;
  const SeparableOptions left = {.padding = ConvolutionPadding::left};
  const Values before = transition_of(x, weights(), left);
  const Values after = transition_of(changed, weights(), left);
  for (std::size_t i = 0; i < 4 * 2; ++i) EXPECT_EQ(before[i], after[i]);
  EXPECT_NE(before[4 * 2], after[4 * 2]);
  // Centered taps of kernel sizes 3 and 5 read 1 + 2 later tokens.
  const Values centered = transition_of(x, weights(), {});
  const Values moved = transition_of(changed, weights(), {});
  for (std::size_t t = 0; t < 9; ++t)
    EXPECT_EQ(centered[t * 2] != moved[t * 2], t >= 1 && t <= 7) << t;
}

// Padded rows of a batch and packed documents have the values of separate sequences.
TEST(SeparableTransition, BatchesAndDocumentsMatchSingleSequences) {
  const std::vector<std::int64_t> lengths = {4, 1, 6};
  const Tensor packed = random_tensor({1, 11, channels}, 1);
  for (const ConvolutionPadding padding : paddings) {
    Values padded(3 * 6 * channels, 9), apart;
    std::vector<std::uint8_t> real;
    std::int64_t begin = 0;
    for (std::size_t row = 0; row < lengths.size(); ++row) {
      const Values all = values_of(packed);
      const Values one(all.begin() + begin * channels,
                       all.begin() + (begin + lengths[row]) * channels);
      std::ranges::copy(one, padded.begin() + static_cast<std::ptrdiff_t>(row) * 6 * channels);
      for (std::int64_t i = 0; i < 6; ++i) real.push_back(i < lengths[row] ? 1 : 0);
      const Values y = transition_of(
          tensor_of<double>(one, {1, lengths[row], channels}), weights(), {.padding = padding});
      apart.insert(apart.end(), y.begin(), y.end());
      begin += lengths[row];
    }
    if (padding == ConvolutionPadding::left)
      expect_close(transition_of(packed, weights(), with_documents(lengths)), apart, 1e-14);
    const Values batch = transition_of(tensor_of<double>(padded, {3, 6, channels}),
                                       weights(),
                                       {.padding = padding, .real = bytes_of(real, {3, 6})});
    Values found;
    for (std::size_t row = 0; row < lengths.size(); ++row)
      found.insert(found.end(),
                   batch.begin() + static_cast<std::ptrdiff_t>(row) * 12,
                   batch.begin() + static_cast<std::ptrdiff_t>(row) * 12 + 2 * lengths[row]);
    expect_close(found, apart, 1e-14);
  }
}

}  // namespace
}  // namespace longspan::convolution_test
