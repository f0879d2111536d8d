// Gated linear recurrences (fla-org/flash-linear-attention, transformers, BlinkDL/RWKV-LM).
#include "framework/autograd/gated_recurrence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "framework/autograd/convolution.h"
#include "framework/autograd/ops.h"
#include "framework/autograd/sequence_products.h"
#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/mamba2_layer.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::golden {
namespace {

// Swaps the last two axes of [batch, heads, m, n].
Tensor transposed(const Tensor& x) {
  const Shape& shape = x.shape();
  const Tensor y = Tensor::empty({shape[0], shape[1], shape[3], shape[2]}, x.dtype(), x.device());
  for (std::int64_t head = 0; head < shape[0] * shape[1]; ++head)
    for (std::int64_t i = 0; i < shape[2]; ++i)
      for (std::int64_t j = 0; j < shape[3]; ++j)
        y.data<double>()[(head * shape[3] + j) * shape[2] + i] =
            x.data<double>()[(head * shape[2] + i) * shape[3] + j];
  return y;
}

// States of a file, which has some of them [value, key].
struct States {
  const GoldenFile& file;
  bool transposes = false;
  ChunkBoundaries ends = {};

  States(const GoldenFile& from, bool is_transposed) : file(from), transposes(is_transposed) {
    if (file.has("inputs/initial_state"))
      ends.before = std::make_shared<BoundaryTensor>(
          BoundaryTensor{turned(file.numbers("inputs/initial_state")), {}});
    ends.after = std::make_shared<BoundaryTensor>();
  }
  Tensor turned(const Tensor& x) const { return transposes ? transposed(x) : x.clone(); }

  void check_final() const {
    expect_output(file, "final_state", turned(ends.after->value));
    ends.after->gradient = turned(file.numbers("inputs/upstream_final_state"));
  }
  void check_initial_gradient() const {
    if (ends.before) expect_gradient(file, "initial_state", turned(ends.before->gradient));
  }
};

void run_backward(const GoldenFile& file, const Variable& y) {
  expect_output(file, "y", y.value());
  backward({y}, {file.numbers("inputs/upstream_y").clone()});
}

// One gate of each head for all tokens, [batch, time, heads].
Variable constant_gates(const GoldenFile& file, const Shape& key) {
  const Tensor& gate = file.numbers("inputs/log_decay");
  const Tensor all = Tensor::empty({key[0], key[1], key[2]}, DType::f64, gate.device());
  for (std::int64_t i = 0; i < all.elements(); ++i)
    all.data<double>()[i] = gate.data<double>()[i % key[2]];
  return Variable(all);
}

}  // namespace

// Retention, GLA, DeltaNet, Gated DeltaNet and Kimi Delta Attention.
void check_gated_recurrence(const GoldenFile& file) {
  const Variable query = leaf_of(file, "inputs/q"), key = leaf_of(file, "inputs/k");
  const Variable value = leaf_of(file, "inputs/v");
  expect_extent(file, "batch", query.shape()[0]);
  expect_extent(file, "len", query.shape()[1]);
  expect_extent(file, "heads", value.shape()[2]);
  expect_extent(file, "d_key", query.shape()[3]);
  expect_extent(file, "d_value", value.shape()[3]);
  EXPECT_GT(file.integer("chunk"), 0);
  RecurrenceGates gates;
  const bool is_constant = file.name().starts_with("retention");
  if (is_constant)
    gates.log_decay = constant_gates(file, query.shape());
  else if (file.has("inputs/log_decay"))
    gates.log_decay = leaf_of(file, "inputs/log_decay");
  Variable q = query, k = key;
  if (file.has("inputs/beta")) {
    gates.beta = leaf_of(file, "inputs/beta");
    if (!file.name().starts_with("delta_rule")) {
      expect_extent(file, "key_heads", query.shape()[2]);
      const std::int64_t copies = value.shape()[2] / query.shape()[2];
      if (!file.name().starts_with("kda") && file.flag("qk_l2norm")) {
        q = l2_normalize(q, 1e-6);
        k = l2_normalize(k, 1e-6);
      }
      q = repeat_kv(q, copies);
      k = repeat_kv(k, copies);
    }
  }
  const States states(file, false);
  const Variable y = gated_recurrence(q,
                                      k,
                                      value,
                                      gates,
                                      {.scale = file.real("scale"),
                                       .document_position = document_positions(file),
                                       .state = states.ends});
  states.check_final();
  run_backward(file, y);
  expect_gradient(file, "q", gradient_of(query));
  expect_gradient(file, "k", gradient_of(key));
  expect_gradient(file, "v", gradient_of(value));
  if (gates.log_decay.defined() && !is_constant)
    expect_gradient(file, "log_decay", gradient_of(gates.log_decay));
  if (gates.beta.defined()) expect_gradient(file, "beta", gradient_of(gates.beta));
  states.check_initial_gradient();
}

// RWKV-7 as in the reference: S_t = S_(t-1) (diag(e^-e^w) + a b^T) + v k^T; states are [value,
// key].
void check_rwkv7(const GoldenFile& file) {
  const Variable query = leaf_of(file, "inputs/r"), key = leaf_of(file, "inputs/k");
  const Variable value = leaf_of(file, "inputs/v"), raw = leaf_of(file, "inputs/w");
  const Variable a = leaf_of(file, "inputs/a"), b = leaf_of(file, "inputs/b");
  expect_extent(file, "batch", query.shape()[0]);
  expect_extent(file, "len", query.shape()[1]);
  expect_extent(file, "heads", query.shape()[2]);
  expect_extent(file, "d_head", query.shape()[3]);
  EXPECT_GT(file.integer("chunk"), 0);
  const Tensor decay = raw.value().empty_like();
  for (std::int64_t i = 0; i < decay.elements(); ++i)
    decay.data<double>()[i] = -std::exp(raw.value().data<double>()[i]);
  const Variable log_decay = Variable::leaf(decay);
  const States states(file, true);
  const Variable y =
      gated_recurrence(query,
                       key,
                       value,
                       {.log_decay = log_decay, .a = a, .b = b},
                       {.document_position = document_positions(file), .state = states.ends});
  states.check_final();
  run_backward(file, y);
  for (const auto& [name, leaf] :
       {std::pair("r", query), {"k", key}, {"v", value}, {"a", a}, {"b", b}})
    expect_gradient(file, name, gradient_of(leaf));
  const Tensor draw = gradient_of(log_decay).clone();
  for (std::int64_t i = 0; i < draw.elements(); ++i)
    draw.data<double>()[i] *= decay.data<double>()[i];
  expect_gradient(file, "w", draw);
  states.check_initial_gradient();
}

namespace {

// Elements [begin, begin + count) of the last axis.
Variable features(const Variable& x, std::int64_t begin, std::int64_t count) {
  const Shape& shape = x.shape();
  const std::int64_t width = shape.width();
  const Variable rows = reshape(x, {shape.elements() / width, width, 1});
  return reshape(slice_sequence(rows, begin, count), shape.with(-1, count));
}

Variable in_heads(const Variable& x, std::int64_t heads) {
  const Shape& shape = x.shape();
  return reshape(x, {shape[0], shape[1], heads, shape[2] / heads});
}

// The natural logarithm of -A, and the gradient of A from that of the logarithm.
struct LogRates {
  Variable rates;

  explicit LogRates(const Tensor& a) : rates(Variable::leaf(a.clone())) {
    for (double& value : rates.value().span<double>()) value = std::log(-value);
  }
  Tensor gradient_of_a(const Tensor& a) const {
    const Tensor result = gradient_of(rates).clone();
    for (std::int64_t i = 0; i < a.elements(); ++i) result.data<double>()[i] /= a.data<double>()[i];
    return result;
  }
};

}  // namespace

// Mamba-2's recurrence; states are [value, key].
void check_state_space(const GoldenFile& file) {
  const Variable x = leaf_of(file, "inputs/x"), dt = leaf_of(file, "inputs/dt");
  const Variable b = leaf_of(file, "inputs/B"), c = leaf_of(file, "inputs/C");
  const Variable bias = leaf_of(file, "weights/dt_bias"), skip = leaf_of(file, "weights/D");
  const Tensor& a = file.numbers("weights/A");
  const LogRates rates(a);
  expect_extent(file, "batch", x.shape()[0]);
  expect_extent(file, "len", x.shape()[1]);
  expect_extent(file, "heads", x.shape()[2]);
  expect_extent(file, "d_head", x.shape()[3]);
  expect_extent(file, "groups", b.shape()[2]);
  expect_extent(file, "d_state", b.shape()[3]);
  EXPECT_GT(file.integer("chunk"), 0);
  const States states(file, true);
  const Variable y = state_space(
      {.x = x,
       .b = b,
       .c = c,
       .step = step_sizes(add_bias(dt, bias), file.real("dt_min"), file.real("dt_max"))},
      rates.rates,
      skip,
      {.document_position = document_positions(file), .state = states.ends});
  states.check_final();
  run_backward(file, y);
  for (const auto& [name, leaf] : {std::pair("x", x), {"dt", dt}, {"B", b}, {"C", c}})
    expect_gradient(file, name, gradient_of(leaf));
  expect_gradient(file, "dt_bias", gradient_of(bias));
  expect_gradient(file, "D", gradient_of(skip));
  expect_gradient(file, "A", rates.gradient_of_a(a));
  states.check_initial_gradient();
}

namespace {

// The layer of a model: no padding, no state.
void check_mamba2_layer(const GoldenFile& file) {
  const std::int64_t heads = file.integer("heads"), dim = file.integer("d_head");
  Parameters parameters(testing::backend_device(), DType::f64, ProcessMesh());
  const bool bias = file.flag("bias");
  Mamba2Op::Options options = {.mamba2 = {.heads = heads,
                                          .dim = dim,
                                          .state = file.integer("d_state"),
                                          .groups = file.integer("groups"),
                                          .step_limit = {file.real("dt_min"), file.real("dt_max")},
                                          .convolution_bias = file.flag("conv_bias")},
                               .width = file.integer("d_model"),
                               .taps = file.integer("kernel"),
                               .bias = bias,
                               .epsilon = file.real("eps")};
  const Scope scope(parameters);
  const MultiHeadAttention layer(scope,
                                 {.width = options.width, .heads = heads, .dim = dim, .bias = bias},
                                 std::make_unique<Mamba2Op>(scope, options));
  parameters.allocate(Random(0));
  const auto parts = [](const char* part) {
    const auto name = [&](const char* of) { return of + std::string(part); };
    return std::vector<std::string>{
        name("output_gate"), name("value"), name("key"), name("query"), name("step")};
  };
  const auto convolutions = [](const char* part) {
    const auto name = [&](const char* of) { return of + std::string("_convolution") + part; };
    return std::vector<std::string>{name("value"), name("key"), name("query")};
  };
  std::vector<WeightName> names = {{"in_proj_weight", parts("/weight")},
                                   {"conv1d_weight", convolutions("/weight")},
                                   {"A_log", {"log_rate"}},
                                   {"D", {"skip"}},
                                   {"norm_weight", {"output_norm"}},
                                   {"out_proj_weight", {"out/weight"}}};
  ASSERT_FALSE(bias) << file.name() << ": the bias of dt and dt_bias are one parameter here";
  names.push_back({"dt_bias", {"step/bias"}});
  if (file.flag("conv_bias")) names.push_back({"conv1d_bias", convolutions("/bias")});
  load(file, names, parameters);
  const Variable x = leaf_of(file, "inputs/x");
  expect_extent(file, "batch", x.shape()[0]);
  expect_extent(file, "len", x.shape()[1]);
  AttentionContext context;
  context.mask.rules = masks::causal();
  context.mask.max_lookback = document_positions(file);
  const Variable y = layer(x, Variable(), context, ForwardContext());
  expect_output(file, "y", y.value());
  backward({y}, {file.numbers("inputs/upstream").clone()});
  expect_gradient(file, "x", gradient_of(x));
  expect_weight_gradients(file, names, parameters);
}

}  // namespace

// Mamba-2's layer. The reference zeroes padding before the input projection and after the
// convolution, and has two biases of the step.
void check_mamba2(const GoldenFile& file) {
  EXPECT_GT(file.integer("chunk"), 0);
  const bool has_state = file.has("inputs/initial_state");
  if (!has_state && !file.has("inputs/mask") && !file.flag("bias")) {
    check_mamba2_layer(file);
    return;
  }
  const std::int64_t heads = file.integer("heads"), groups = file.integer("groups");
  const std::int64_t width = heads * file.integer("d_head"), taps = file.integer("kernel");
  const std::int64_t keys = groups * file.integer("d_state"), channels = width + 2 * keys;
  std::vector<std::pair<std::string, Variable>> weights;
  const auto weight = [&](const char* name) {
    weights.emplace_back(name, leaf_of(file, std::string("weights/") + name));
    return weights.back().second;
  };
  const bool bias = file.flag("bias");
  const Variable x = leaf_of(file, "inputs/x");
  expect_extent(file, "batch", x.shape()[0]);
  expect_extent(file, "len", x.shape()[1]);
  expect_extent(file, "d_model", x.shape()[2]);
  const Ranges all = {{0, x.shape()[1]}};
  Tensor padding;
  if (file.has("inputs/mask")) {
    padding = mask_of(file, "inputs/mask");
    for (std::uint8_t& is_padding : padding.span<std::uint8_t>()) is_padding = 1 - is_padding;
  }
  const auto masked = [&](const Variable& rows) { return mask_padding(rows, all, {}, padding); };
  const Variable projected =
      linear(masked(x), weight("in_proj_weight"), bias ? weight("in_proj_bias") : Variable());
  const Shape rows = {x.shape()[0], taps - 1, 1, channels};
  ChunkBoundaries before_convolution;
  if (has_state)
    before_convolution = {.before = std::make_shared<BoundaryTensor>(BoundaryTensor{
                              file.numbers("inputs/conv_state").clone().reshape(rows), {}}),
                          .after = std::make_shared<BoundaryTensor>()};
  const Variable mixed =
      masked(short_convolution(features(projected, width, channels),
                               reshape(weight("conv1d_weight"), {channels, taps}),
                               file.flag("conv_bias") ? weight("conv1d_bias") : Variable(),
                               document_positions(file),
                               true,
                               before_convolution));
  const States states(file, true);
  const Variable dt = features(projected, width + channels, heads);
  const Variable y =
      state_space({.x = in_heads(features(mixed, 0, width), heads),
                   .b = in_heads(features(mixed, width, keys), groups),
                   .c = in_heads(features(mixed, width + keys, keys), groups),
                   .step = step_sizes(
                       add_bias(dt, weight("dt_bias")), file.real("dt_min"), file.real("dt_max"))},
                  weight("A_log"),
                  weight("D"),
                  {.document_position = document_positions(file),
                   .state = has_state ? states.ends : ChunkBoundaries()});
  const Variable normed = gated_group_norm(reshape(y, x.shape().with(-1, width)),
                                           features(projected, 0, width),
                                           weight("norm_weight"),
                                           groups,
                                           file.real("eps"));
  const Variable out =
      linear(normed, weight("out_proj_weight"), bias ? weight("out_proj_bias") : Variable());
  if (has_state) {
    states.check_final();
    expect_output(file,
                  "final_conv_state",
                  before_convolution.after->value.reshape({rows[0], rows[1], channels}));
    before_convolution.after->gradient =
        file.numbers("inputs/upstream_final_conv_state").clone().reshape(rows);
    run_backward(file, out);
    states.check_initial_gradient();
    expect_gradient(file,
                    "conv_state",
                    before_convolution.before->gradient.reshape({rows[0], rows[1], channels}));
  } else {
    expect_output(file, "y", out.value());
    backward({out}, {file.numbers("inputs/upstream").clone()});
  }
  expect_gradient(file, "x", gradient_of(x));
  for (const auto& [name, leaf] : weights) expect_gradient(file, name, gradient_of(leaf));
}

void check_short_convolution(const GoldenFile& file) {
  const Variable x = leaf_of(file, "inputs/x"), given = leaf_of(file, "weights/weight");
  const std::int64_t channels = x.shape()[2], taps = file.integer("kernel");
  expect_extent(file, "batch", x.shape()[0]);
  expect_extent(file, "len", x.shape()[1]);
  expect_extent(file, "channels", channels);
  Variable bias;
  if (file.flag("bias")) bias = leaf_of(file, "weights/bias");
  const bool is_segmented = !file.name().ends_with("packed");
  EXPECT_TRUE(!is_segmented || file.integer("segment") > 0);
  ChunkBoundaries ends = {.before = {}, .after = std::make_shared<BoundaryTensor>()};
  const Shape state = {x.shape()[0], taps - 1, 1, channels};
  if (file.has("inputs/conv_state"))
    ends.before = std::make_shared<BoundaryTensor>(
        BoundaryTensor{file.numbers("inputs/conv_state").clone().reshape(state), {}});
  const Variable y = short_convolution(
      x, reshape(given, {channels, taps}), bias, document_positions(file), file.flag("silu"), ends);
  const Shape rows = {state[0], taps - 1, channels};
  // No tap reads rows of an earlier document, which the reference clears in its state.
  const auto without_earlier_documents = [&](const Tensor& all) {
    const Tensor result = all.clone().reshape(rows);
    const Tensor position = document_positions(file);
    for (std::int64_t row = 0; position.defined() && row < rows[0]; ++row)
      for (std::int64_t i = 0; i < rows[1]; ++i) {
        const std::int64_t time = x.shape()[1];
        const std::int64_t last = position.data<std::int64_t>()[(row + 1) * time - 1];
        if (rows[1] - 1 - i > last)
          std::fill_n(result.data<double>() + (row * rows[1] + i) * channels, channels, 0.0);
      }
    return result;
  };
  expect_output(file, "final_conv_state", without_earlier_documents(ends.after->value));
  ends.after->gradient =
      without_earlier_documents(file.numbers("inputs/upstream_final_conv_state")).reshape(state);
  run_backward(file, y);
  expect_gradient(file, "x", gradient_of(x));
  expect_gradient(file, "weight", gradient_of(given));
  if (bias.defined()) expect_gradient(file, "bias", gradient_of(bias));
  if (ends.before) expect_gradient(file, "conv_state", ends.before->gradient.reshape(rows));
}

}  // namespace longspan::golden
