// Layers of Gated DeltaNet: Qwen3-Next and Qwen3.5 (transformers).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "framework/autograd/ops.h"
#include "framework/autograd/sequence_products.h"
#include "framework/nn/attention/delta_rule.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"

namespace longspan::golden {
namespace {

struct LayerExtents {
  std::int64_t key_heads, value_heads, key_dim, value_dim;

  std::int64_t group() const { return value_heads / key_heads; }
  // Channels of queries, keys and values.
  std::array<std::int64_t, 3> channels() const {
    return {key_heads * key_dim, key_heads * key_dim, value_heads * value_dim};
  }
};

// Consecutive blocks of rows, of which each key head has the same in the same order.
struct RowBlocks {
  std::vector<std::int64_t> rows;
  std::int64_t repeats = 1;
};

// Rows of block `index` of a matrix of all repeats.
Variable block_of(const Variable& matrix, const RowBlocks& blocks, std::size_t index) {
  const Shape& shape = matrix.shape();
  std::int64_t period = 0, begin = 0;
  for (std::size_t i = 0; i < blocks.rows.size(); ++i) {
    if (i < index) begin += blocks.rows[i];
    period += blocks.rows[i];
  }
  EXPECT_EQ(shape[0], period * blocks.repeats);
  const std::int64_t width = matrix.value().elements() / shape[0];
  const Variable all = reshape(matrix, {1, shape[0], 1, width});
  Variable result;
  for (std::int64_t repeat = 0; repeat < blocks.repeats; ++repeat)
    result = concat_time(result,
                         reshape(slice_sequence(all, repeat * period + begin, blocks.rows[index]),
                                 {1, blocks.rows[index], width}));
  return reshape(result, {result.shape()[1], width});
}

// The matrices of a layer. Qwen3.5 stores them in four, Qwen3-Next in two, grouped by key head.
struct LayerWeights {
  std::vector<std::pair<std::string, Variable>> leaves = {};
  Variable query, key, value, output_gate, beta, decay;

  Variable leaf(const GoldenFile& file, const std::string& name) {
    return leaves.emplace_back(name, leaf_of(file, "weights/" + name)).second;
  }
};

LayerWeights projections_of(const GoldenFile& file, const LayerExtents& sizes) {
  LayerWeights weights;
  if (file.has("weights/in_proj_qkvz_weight")) {
    const std::int64_t values = sizes.group() * sizes.value_dim;
    const Variable matrix = weights.leaf(file, "in_proj_qkvz_weight");
    const RowBlocks blocks = {{sizes.key_dim, sizes.key_dim, values, values}, sizes.key_heads};
    weights.query = block_of(matrix, blocks, 0);
    weights.key = block_of(matrix, blocks, 1);
    weights.value = block_of(matrix, blocks, 2);
    weights.output_gate = block_of(matrix, blocks, 3);
    const Variable gates = weights.leaf(file, "in_proj_ba_weight");
    weights.beta = block_of(gates, {{sizes.group(), sizes.group()}, sizes.key_heads}, 0);
    weights.decay = block_of(gates, {{sizes.group(), sizes.group()}, sizes.key_heads}, 1);
    return weights;
  }
  const Variable matrix = weights.leaf(file, "in_proj_qkv_weight");
  const auto [queries, keys, values] = sizes.channels();
  weights.query = block_of(matrix, {{queries, keys, values}}, 0);
  weights.key = block_of(matrix, {{queries, keys, values}}, 1);
  weights.value = block_of(matrix, {{queries, keys, values}}, 2);
  weights.output_gate = weights.leaf(file, "in_proj_z_weight");
  weights.beta = weights.leaf(file, "in_proj_b_weight");
  weights.decay = weights.leaf(file, "in_proj_a_weight");
  return weights;
}

// The last axis of [batch, rows, channels], as the states of the three convolutions.
std::array<Tensor, 3> convolution_states(const Tensor& whole, const LayerExtents& sizes) {
  std::array<Tensor, 3> parts;
  const std::int64_t rows = whole.shape()[0] * whole.shape()[1], width = whole.shape()[2];
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t count = sizes.channels()[i];
    parts[i] = Tensor::empty(
        {whole.shape()[0], whole.shape()[1], 1, count}, whole.dtype(), whole.device());
    for (std::int64_t row = 0; row < rows; ++row)
      std::copy_n(
          whole.data<double>() + row * width + begin, count, parts[i].data<double>() + row * count);
    begin += count;
  }
  EXPECT_EQ(begin, width);
  return parts;
}

Tensor joined_states(const std::array<Tensor, 3>& parts, const Shape& shape) {
  const Tensor whole = Tensor::empty(shape, DType::f64, parts[0].device());
  const std::int64_t width = shape[2];
  std::int64_t begin = 0;
  for (const Tensor& part : parts) {
    const std::int64_t count = part.shape()[3];
    for (std::int64_t row = 0; row < shape[0] * shape[1]; ++row)
      std::copy_n(
          part.data<double>() + row * count, count, whole.data<double>() + row * width + begin);
    begin += count;
  }
  return whole;
}

std::shared_ptr<BoundaryTensor> boundary(const Tensor& value) {
  return std::make_shared<BoundaryTensor>(BoundaryTensor{value, {}});
}

// States of the recurrence and of the convolutions of queries, keys and values.
struct LayerStates {
  ChunkBoundaries recurrence;
  std::array<ChunkBoundaries, 3> rows;
};

LayerStates states_of(const GoldenFile& file, const LayerExtents& sizes) {
  LayerStates states;
  if (file.has("inputs/initial_state"))
    states.recurrence.before = boundary(file.numbers("inputs/initial_state").clone());
  if (file.has("outputs/final_state")) states.recurrence.after = std::make_shared<BoundaryTensor>();
  std::array<Tensor, 3> before;
  if (file.has("inputs/conv_state"))
    before = convolution_states(file.numbers("inputs/conv_state"), sizes);
  for (std::size_t i = 0; i < 3; ++i) {
    if (before[i].defined()) states.rows[i].before = boundary(before[i]);
    if (file.has("outputs/final_conv_state"))
      states.rows[i].after = std::make_shared<BoundaryTensor>();
  }
  return states;
}

void check_final_states(const GoldenFile& file,
                        const LayerExtents& sizes,
                        const LayerStates& states) {
  if (states.recurrence.after) {
    expect_output(file, "final_state", states.recurrence.after->value);
    states.recurrence.after->gradient = file.numbers("inputs/upstream_final_state").clone();
  }
  if (!states.rows[0].after) return;
  const Tensor& upstream = file.numbers("inputs/upstream_final_conv_state");
  expect_output(
      file,
      "final_conv_state",
      joined_states(
          {states.rows[0].after->value, states.rows[1].after->value, states.rows[2].after->value},
          upstream.shape()));
  const std::array<Tensor, 3> gradients = convolution_states(upstream, sizes);
  for (std::size_t i = 0; i < 3; ++i) states.rows[i].after->gradient = gradients[i];
}

void check_initial_gradients(const GoldenFile& file, const LayerStates& states) {
  if (states.recurrence.before)
    expect_gradient(file, "initial_state", states.recurrence.before->gradient);
  if (!states.rows[0].before) return;
  expect_gradient(file,
                  "conv_state",
                  joined_states({states.rows[0].before->gradient,
                                 states.rows[1].before->gradient,
                                 states.rows[2].before->gradient},
                                file.numbers("inputs/conv_state").shape()));
}

// Multiplies rows [batch, time, width] by the mask of real tokens, if there is one.
Tensor masked(const GoldenFile& file, const Tensor& rows) {
  const Tensor result = rows.clone();
  if (!file.has("inputs/mask")) return result;
  const Tensor mask = mask_of(file, "inputs/mask");
  const std::int64_t width = rows.shape()[2];
  for (std::int64_t row = 0; row < mask.elements(); ++row)
    if (mask.data<std::uint8_t>()[row] == 0)
      std::fill_n(result.data<double>() + row * width, width, 0.0);
  return result;
}

}  // namespace

void check_gated_delta_net(const GoldenFile& file) {
  const LayerExtents sizes = {file.integer("key_heads"),
                              file.integer("value_heads"),
                              file.integer("d_key"),
                              file.integer("d_value")};
  const Variable x = Variable::leaf(masked(file, file.numbers("inputs/x")));
  const std::int64_t batch = x.shape()[0], time = x.shape()[1];
  expect_extent(file, "batch", batch);
  expect_extent(file, "len", time);
  expect_extent(file, "d_model", x.shape()[2]);
  EXPECT_GT(file.integer("chunk"), 0);

  LayerWeights weights = projections_of(file, sizes);
  const Variable taps = weights.leaf(file, "conv1d_weight");
  expect_extent(file, "kernel", taps.shape()[2]);
  const Variable step = weights.leaf(file, "dt_bias"), rate = weights.leaf(file, "A_log");
  const Variable gain = weights.leaf(file, "norm_weight");
  const Variable out = weights.leaf(file, "out_proj_weight");

  const auto heads = [&](const Variable& matrix, std::int64_t count, std::int64_t dim) {
    return reshape(linear(x, matrix, {}), {batch, time, count, dim});
  };
  const LayerStates states = states_of(file, sizes);
  const auto convolution = [&](std::size_t index) -> DeltaRuleConvolution {
    const auto [queries, keys, values] = sizes.channels();
    return {block_of(taps, {{queries, keys, values}}, index), states.rows[index]};
  };
  const Variable zero(Tensor::zeros({sizes.value_heads}, DType::f64, x.value().device()));
  const Variable mixed =
      delta_rule({.query = heads(weights.query, sizes.key_heads, sizes.key_dim),
                  .key = heads(weights.key, sizes.key_heads, sizes.key_dim),
                  .value = heads(weights.value, sizes.value_heads, sizes.value_dim),
                  .gates = {.log_decay = decay_gates(linear(x, weights.decay, step), rate),
                            .beta = token_spans(linear(x, weights.beta, {}), zero, 1)},
                  .convolutions = {convolution(0), convolution(1), convolution(2)},
                  .document_position = document_positions(file),
                  .state = states.recurrence});
  const Variable normed =
      gated_head_norm(mixed,
                      gain,
                      file.real("eps"),
                      heads(weights.output_gate, sizes.value_heads, sizes.value_dim));
  const Variable y =
      linear(reshape(normed, {batch, time, sizes.value_heads * sizes.value_dim}), out, {});
  expect_output(file, "y", y.value());
  check_final_states(file, sizes, states);
  const std::string upstream =
      file.has("inputs/upstream") ? "inputs/upstream" : "inputs/upstream_y";
  backward({y}, {file.numbers(upstream).clone()});
  expect_gradient(file, "x", masked(file, gradient_of(x)));
  for (const auto& [name, leaf] : weights.leaves) expect_gradient(file, name, gradient_of(leaf));
  check_initial_gradients(file, states);
}

}  // namespace longspan::golden
