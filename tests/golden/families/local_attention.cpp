// Local attention over windows (lucidrains/local-attention).
#include "framework/autograd/ops.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/l2_normalize.h"
#include "framework/nn/attention/masked_attention_kinds.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"

namespace longspan::golden {
namespace {

Variable normalized(const Variable& x) {
  const Tensor y = x.value().empty_like();
  const Tensor inverse =
      Tensor::empty({x.value().elements() / x.shape()[-1]}, DType::f64, y.device());
  on(y.device(), [&](auto backend) {
    l2_normalize(backend, {.x = x.value(), .y = y, .inverse_norm = inverse});
  });
  return record(y, {x}, [y, inverse](BackwardContext& gradients) {
    on(y.device(), [&](auto backend) {
      l2_normalize_backward(backend,
                            {.y = y,
                             .inverse_norm = inverse,
                             .dy = gradients.output(),
                             .dx = gradients.accumulate_target(0)});
    });
  });
}

// The reference pads the last window with keys, visible to queries that look forward.
Variable padded(const Variable& x, std::int64_t window) {
  const Shape& shape = x.shape();
  const std::int64_t missing = (window - shape[1] % window) % window;
  if (missing == 0) return x;
  return concat_time(
      x, Variable(Tensor::zeros(shape.with(1, missing), DType::f64, x.value().device())));
}

Mask windows_of(const GoldenFile& file) {
  const std::int64_t window = file.integer("window");
  const std::int64_t left = window * file.integer("look_backward");
  const std::int64_t right = window * file.integer("look_forward");
  Mask rules = masks::block(window, left, right);
  if (file.flag("exact_window"))
    rules = rules & sliding_window_mask({.left = left, .right = right});
  return file.flag("causal") ? rules & masks::causal() : rules;
}

}  // namespace

void check_local_attention(const GoldenFile& file) {
  const Variable query = leaf_of(file, "inputs/q");
  const Variable key = leaf_of(file, "inputs/k");
  const Variable value = leaf_of(file, "inputs/v");
  expect_extent(file, "len", query.shape()[1]);
  expect_extent(file, "d_head", query.shape()[2]);
  expect_extent(file, "batch", query.shape()[0]);
  const bool filled_up = file.flag("autopad");
  const bool shared = file.flag("shared_qk");
  AttentionMask mask = {.rules = windows_of(file)};
  Variable keys = shared ? normalized(key) : key;
  Variable values = value;
  if (file.flag("masked")) {
    mask.key_padding = padding_of(file);
  } else if (filled_up) {
    keys = padded(keys, file.integer("window"));
    values = padded(values, file.integer("window"));
  }
  AttentionTerms terms;
  if (shared) terms.hash = LshTerm{.self_score = -5e4};
  const Variable y = attention(by_row(query), by_row(keys), by_row(values), mask, terms);
  expect_output(file, "y", y.value());
  backward({y}, {file.numbers("inputs/upstream").clone().reshape(y.shape())});
  expect_gradient(file, "q", gradient_of(query));
  expect_gradient(file, "k", gradient_of(key));
  expect_gradient(file, "v", gradient_of(value));
}

}  // namespace longspan::golden
