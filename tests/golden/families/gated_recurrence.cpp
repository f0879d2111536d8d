// Gated linear recurrences (fla-org/flash-linear-attention, transformers, BlinkDL/RWKV-LM).
#include "framework/autograd/gated_recurrence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "framework/autograd/ops.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"

namespace longspan::golden {
namespace {

// [batch, time] i64: the position of each token in its document. Document 0 continues the initial
// state, so that its first token is far from 0.
Tensor document_positions(const GoldenFile& file) {
  if (!file.has("inputs/document")) return {};
  const Tensor& document = file.ids("inputs/document");
  const Tensor result = document.empty_like();
  const std::int64_t time = document.shape()[1];
  for (std::int64_t i = 0; i < document.elements(); ++i) {
    const auto* const id = document.data<std::int64_t>() + i;
    const bool first = i % time == 0;
    const std::int64_t before = first ? 1000 : result.data<std::int64_t>()[i - 1];
    result.data<std::int64_t>()[i] = first || id[0] == id[-1] ? before + 1 : 0;
  }
  return result;
}

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
