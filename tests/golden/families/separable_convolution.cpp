// Separable convolutions of the Universal Transformer's transition (tensor2tensor's
// sepconv_relu_sepconv).
#include <gtest/gtest.h>

#include "tests/golden/compare.h"
#include "tests/golden/families.h"
#include "tests/support/separable_reference.h"

namespace longspan::golden {
namespace {

using testing::SeparableOptions;
using testing::SeparableWeights;

// 1 at tokens, 0 at padding.
Tensor real_tokens(const GoldenFile& file) {
  const Tensor& ids = file.ids("inputs/nonpadding");
  const Tensor real = Tensor::empty(ids.shape(), DType::u8, ids.device(), MemoryTag::workspace);
  for (std::int64_t i = 0; i < ids.elements(); ++i)
    real.data<std::uint8_t>()[i] = ids.data<std::int64_t>()[i] != 0 ? 1 : 0;
  return real;
}

Variable leaf_if_any(const GoldenFile& file, const std::string& dataset) {
  return file.has(dataset) ? leaf_of(file, dataset) : Variable();
}

SeparableWeights weights_of(const GoldenFile& file, const std::string& number) {
  const SeparableWeights weights = {.depthwise = leaf_of(file, "weights/depthwise" + number),
                                    .pointwise = leaf_of(file, "weights/pointwise" + number),
                                    .bias = leaf_if_any(file, "weights/bias" + number)};
  expect_extent(file, "kernel" + number, weights.depthwise.shape()[1]);
  return weights;
}

void expect_gradients_of(const GoldenFile& file,
                         const SeparableWeights& weights,
                         const std::string& number) {
  expect_gradient(file, "depthwise" + number, gradient_of(weights.depthwise));
  expect_gradient(file, "pointwise" + number, gradient_of(weights.pointwise));
  if (weights.bias.defined()) expect_gradient(file, "bias" + number, gradient_of(weights.bias));
}

}  // namespace

void check_separable_convolution(const GoldenFile& file) {
  const Variable x = leaf_of(file, "inputs/x");
  expect_extent(file, "batch", x.shape()[0]);
  expect_extent(file, "len", x.shape()[1]);
  expect_extent(file, "d_model", x.shape()[2]);
  const SeparableWeights in = weights_of(file, "1"), out = weights_of(file, "2");
  SeparableOptions options;
  options.padding = file.flag("causal") ? ConvolutionPadding::left : ConvolutionPadding::same;
  if (file.has("inputs/nonpadding")) options.real = real_tokens(file);
  const Variable y = testing::separable_transition(x, in, out, options);
  expect_extent(file, "d_ff", in.pointwise.shape()[0]);
  expect_extent(file, "d_out", y.shape()[2]);
  expect_output(file, "y", y.value());
  backward({y}, {file.numbers("inputs/upstream").clone()});
  expect_gradient(file, "x", gradient_of(x));
  expect_gradients_of(file, in, "1");
  expect_gradients_of(file, out, "2");
}

}  // namespace longspan::golden
