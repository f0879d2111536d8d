// Layers that mix tokens without attention (rish-16/aft-pytorch, labml_nn, transformers' FNet,
// lucidrains/g-mlp-pytorch, timm's MLP-Mixer).
#include "framework/autograd/token_mixing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "framework/autograd/attention_free.h"
#include "framework/autograd/ops.h"
#include "framework/autograd/sequence_products.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::golden {
namespace {

// Leaves of a file by name. Requires all gradients of those that were read.
class Leaves {
 public:
  explicit Leaves(const GoldenFile& file) : file_(file) {}

  Variable weight(const std::string& name) { return add("weights/", name); }
  Variable input(const std::string& name) { return add("inputs/", name); }
  // Undefined where the file has none.
  Variable optional_weight(const std::string& name) {
    return file_.has("weights/" + name) ? weight(name) : Variable();
  }
  Variable linear(const Variable& x, const std::string& name) {
    return longspan::linear(x, weight(name + "_weight"), optional_weight(name + "_bias"));
  }
  Variable norm(const Variable& x, const std::string& name, double epsilon) {
    return layer_norm(x, weight(name + "_weight"), weight(name + "_bias"), epsilon);
  }
  void check(const Variable& y) const {
    expect_output(file_, "y", y.value());
    backward({y}, {file_.numbers("inputs/upstream").clone()});
    for (const auto& [name, leaf] : all_) expect_gradient(file_, name, gradient_of(leaf));
  }

 private:
  Variable add(const std::string& group, const std::string& name) {
    all_.emplace_back(name, leaf_of(file_, group + name));
    return all_.back().second;
  }

  const GoldenFile& file_;
  std::vector<std::pair<std::string, Variable>> all_;
};

Variable input_of(const GoldenFile& file, Leaves& leaves) {
  const Variable x = leaves.input("x");
  expect_extent(file, "batch", x.shape()[0]);
  expect_extent(file, "len", x.shape()[1]);
  return x;
}

// [batch, keys] in float64: -infinity at padding; undefined if the file has no padding.
Tensor hidden_keys_of(const GoldenFile& file, const Shape& x) {
  const std::vector<std::string> names = {
      "key_padding_mask", "padding_mask", "mask", "input_mask", "attention_mask", "key_mask"};
  if (std::ranges::none_of(names, [&](const auto& name) { return file.has("inputs/" + name); }))
    return {};
  const Tensor padding = padding_of(file);
  const Tensor hidden = Tensor::zeros({x[0], x[1]}, DType::f64, testing::backend_device());
  for (std::int64_t i = 0; i < hidden.elements(); ++i)
    if (padding.data<std::uint8_t>()[i] != 0)
      hidden.data<double>()[i] = -std::numeric_limits<double>::infinity();
  return hidden;
}

// The halves of the features.
Variable half_of(const Variable& x, std::int64_t half) {
  const Shape& shape = x.shape();
  const std::int64_t rows = shape.rows(), width = shape.width() / 2;
  return reshape(slice_sequence(reshape(x, {rows, 2, width}), half, 1), shape.with(-1, width));
}

// `attention`: added to the gate, may be undefined.
Variable gated_half(const GoldenFile& file,
                    Leaves& leaves,
                    const Variable& x,
                    const Variable& attention) {
  const Variable u = leaves.norm(half_of(x, 1), "sgu_norm", file.real("eps"));
  const Variable weight = leaves.weight("sgu_weight");
  expect_extent(file, "max_len", weight.shape()[1]);
  expect_extent(file, "heads", weight.shape()[0]);
  expect_extent(file, "d_ff", x.shape().width());
  Variable gate = spatial_gate(
      u, {.weight = weight, .bias = leaves.weight("sgu_bias"), .causal = file.flag("causal")});
  if (attention.defined()) gate = add(gate, attention);
  return gated(Activation::none, gate, half_of(x, 0));
}

// One head over q, k and v, the three parts of the rows of a matrix.
Variable tiny_attention(const GoldenFile& file, Leaves& leaves, const Variable& x) {
  const Shape& shape = x.shape();
  const Variable all = leaves.linear(x, "to_qkv");
  const std::int64_t width = all.shape().width() / 3;
  expect_extent(file, "d_attention", width);
  const Variable parts = reshape(all, {shape.rows(), 3, width});
  const auto part = [&](std::int64_t i) {
    return reshape(slice_sequence(parts, i, 1), {shape[0], shape[1], 1, width});
  };
  const Variable y =
      attention(part(0),
                part(1),
                part(2),
                {.rules = file.flag("causal") ? masks::causal() : masks::everything()});
  return leaves.linear(reshape(y, {shape[0], shape[1], width}), "to_out");
}

Variable token_mixing(Leaves& leaves, const Variable& x, double epsilon) {
  return add(x,
             mix_tokens(leaves.norm(x, "norm1", epsilon),
                        {.in = leaves.weight("tokens_fc1_weight"),
                         .in_bias = leaves.weight("tokens_fc1_bias"),
                         .out = leaves.weight("tokens_fc2_weight"),
                         .out_bias = leaves.weight("tokens_fc2_bias")}));
}

Variable fourier_mixing(const Variable& x) {
  const Shape& shape = x.shape();
  const Device device = x.value().device();
  const FourierTransform over_time(shape[1], DType::f64, device);
  return linear(over_time(x),
                Variable(fourier_features(shape[2], 0, shape[2], 1, DType::f64, device)),
                Variable());
}

}  // namespace

void check_attention_free(const GoldenFile& file) {
  Leaves leaves(file);
  const Variable x = input_of(file, leaves);
  const Variable q = leaves.linear(x, "to_q"), k = leaves.linear(x, "to_k");
  const Variable v = leaves.linear(x, "to_v");
  expect_extent(file, "d_model", x.shape()[2]);
  expect_extent(file, "d_hidden", k.shape()[2]);
  AttentionFreeOptions options = {.causal = file.flag("causal"),
                                  .hidden = hidden_keys_of(file, x.shape())};
  Variable bias;
  if (file.has("weights/position_bias")) {
    bias = leaves.weight("position_bias");
    options.window = bias.shape()[0];
    expect_extent(file, "max_len", options.window);
  } else {
    EXPECT_GE(file.integer("max_len"), x.shape()[1]);
  }
  if (file.name().starts_with("aft-local")) options.window = file.integer("window");
  const Variable mean = attention_free(k, v, bias, options);
  leaves.check(leaves.linear(gate(GateFunction::reset, mean, {}, q, {}), "project"));
}

void check_fourier_mixing(const GoldenFile& file) {
  Leaves leaves(file);
  const Variable x = input_of(file, leaves);
  expect_extent(file, "d_model", x.shape()[2]);
  const Variable mixed = fourier_mixing(x);
  if (file.name() == "fnet-mixing") {
    leaves.check(mixed);
    return;
  }
  const double epsilon = file.real("eps");
  const Variable h = leaves.norm(add(x, mixed), "norm1", epsilon);
  const Variable hidden = leaves.linear(h, "linear1");
  expect_extent(file, "d_ff", hidden.shape()[2]);
  const Variable fed =
      leaves.linear(activate(nonlinearity(activation_of(file)), hidden), "linear2");
  leaves.check(leaves.norm(add(h, fed), "norm2", epsilon));
}

void check_spatial_gate(const GoldenFile& file) {
  Leaves leaves(file);
  const Variable x = input_of(file, leaves);
  if (file.name().starts_with("gmlp-spatial_gate")) {
    leaves.check(gated_half(file, leaves, x, {}));
    return;
  }
  expect_extent(file, "d_model", x.shape()[2]);
  const Variable normed = leaves.norm(x, "norm", file.real("eps"));
  const Variable hidden = activate(Activation::gelu, leaves.linear(normed, "proj_in"));
  Variable attended;
  if (file.has("weights/to_qkv_weight")) attended = tiny_attention(file, leaves, normed);
  const Variable y = gated_half(file, leaves, hidden, attended);
  leaves.check(add(x, leaves.linear(y, "proj_out")));
}

void check_mlp_mixer(const GoldenFile& file) {
  Leaves leaves(file);
  const Variable x = input_of(file, leaves);
  const double epsilon = file.real("eps");
  expect_extent(file, "d_model", x.shape()[2]);
  expect_extent(file, "d_tokens", file.numbers("weights/tokens_fc1_weight").shape()[0]);
  ASSERT_EQ(nonlinearity(activation_of(file)), Activation::gelu);
  const Variable mixed = token_mixing(leaves, x, epsilon);
  if (file.name() == "mlp_mixer-token_mixing") {
    leaves.check(mixed);
    return;
  }
  const Variable hidden = leaves.linear(leaves.norm(mixed, "norm2", epsilon), "channels_fc1");
  expect_extent(file, "d_channels", hidden.shape()[2]);
  leaves.check(add(mixed, leaves.linear(activate(Activation::gelu, hidden), "channels_fc2")));
}

}  // namespace longspan::golden
