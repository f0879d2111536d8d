// Adaptive attention spans (facebookresearch/adaptive-span).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "framework/autograd/ops.h"
#include "tests/golden/compare.h"
#include "tests/golden/families.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::golden {
namespace {

std::int64_t one_id(const GoldenFile& file, const std::string& dataset) {
  return file.ids(dataset).data<std::int64_t>()[0];
}

double ramp_of(const GoldenFile& file) { return static_cast<double>(file.integer("ramp")); }

// Spans in positions, [heads]; the file has fractions of the maximum.
Variable spans_of(const GoldenFile& file) {
  const Tensor spans = file.numbers("weights/current_val").clone();
  for (double& span : spans.span<double>()) span *= static_cast<double>(file.integer("attn_span"));
  return Variable::leaf(spans.reshape({spans.elements()}));
}
void expect_span_gradient(const GoldenFile& file, const Variable& spans, double of_each) {
  const Tensor gradient = gradient_of(spans).clone();
  for (double& value : gradient.span<double>())
    value = value * static_cast<double>(file.integer("attn_span")) + of_each;
  expect_gradient(file, "current_val", gradient);
}

// Attention of a block of queries to the block and its cache.
class SpanAttention {
 public:
  SpanAttention(const GoldenFile& file, std::string prefix)
      : file_(file),
        prefix_(std::move(prefix)),
        longest_(file.integer("attn_span")),
        query_(projection("query")),
        key_(projection("key")),
        value_(projection("val")),
        out_(projection("out")),
        spans_(spans_of(file)),
        distances_(Variable::leaf(distance_keys())) {
    expect_extent(file, "heads", spans_.shape()[0]);
    expect_extent(file, "d_model", query_.shape()[0]);
    expect_trim();
  }

  Variable operator()(const Variable& h, const Variable& cache) const {
    expect_extent(file_, "batch", h.shape()[0]);
    expect_extent(file_, "block", h.shape()[1]);
    expect_extent(file_, "cache", cache.shape()[1]);
    const Variable seen = concat_time(cache, h);
    const Variable keys = filled_up(linear(seen, key_, Variable()), cache.shape()[1]);
    const Variable values = filled_up(linear(seen, value_, Variable()), cache.shape()[1]);
    const AttentionMask mask = {.rules = masks::window(longest_ - trimmed(), -1),
                                .query_begin = keys.shape()[1] - h.shape()[1]};
    const Variable zeros(
        Tensor::zeros({spans_.shape()[0], head_width()}, DType::f64, h.value().device()));
    const AttentionTerms terms = {.relative = RelativeVariables{distances_, zeros, zeros},
                                  .span = SpanVariables{.span = spans_, .ramp = ramp_of(file_)}};
    const Variable mixed = attention(
        by_head(linear(h, query_, Variable())), by_head(keys), by_head(values), mask, terms);
    return linear(reshape(mixed, h.shape()), out_, Variable());
  }

  void expect_loss_and_gradients() const {
    const Tensor& fractions = file_.numbers("weights/current_val");
    double total = 0;
    for (const double fraction : fractions.span<double>()) total += fraction;
    const double each = file_.real("span_loss") * static_cast<double>(longest_) /
                        static_cast<double>(fractions.elements());
    expect_output(file_, "span_loss", testing::tensor_of<double>({each * total}, {1}));
    expect_span_gradient(
        file_, spans_, each * file_.numbers("inputs/upstream_span_loss").data<double>()[0]);
    for (const auto& [name, weight] :
         {std::pair("query", query_), {"key", key_}, {"val", value_}, {"out", out_}})
      expect_gradient(file_, prefix_ + "proj_" + name + "_weight", gradient_of(weight));
    expect_gradient(file_, "key_pe", key_gradient());
  }

 private:
  Variable projection(const std::string& name) const {
    return leaf_of(file_, "weights/" + prefix_ + "proj_" + name + "_weight");
  }
  std::int64_t head_width() const { return query_.shape()[0] / spans_.shape()[0]; }
  Variable by_head(const Variable& x) const {
    return reshape(x, {x.shape()[0], x.shape()[1], spans_.shape()[0], head_width()});
  }

  // The reference trims the oldest keys in steps of 64, as long as no head sees them.
  std::int64_t trimmed() const {
    double widest = 0;
    for (const double span : spans_.value().span<double>()) widest = std::max(widest, span);
    const auto seen = static_cast<std::int64_t>(std::ceil(widest) + ramp_of(file_));
    const std::int64_t unseen = longest_ - std::min(seen, longest_);
    return std::min(longest_ - 1, unseen) / 64 * 64;
  }
  void expect_trim() const {
    EXPECT_EQ(one_id(file_, "outputs/trim_len"), trimmed()) << file_.name();
    EXPECT_EQ(one_id(file_, "outputs/cache_size"), std::min(longest_, longest_ - trimmed() + 64))
        << file_.name();
  }
  // The reference pads a shorter cache with zero keys and values, which receive probability by
  // relative position.
  Variable filled_up(const Variable& x, std::int64_t cache) const {
    const std::int64_t missing = longest_ - trimmed() - cache;
    if (missing <= 0) return x;
    return concat_time(
        Variable(Tensor::zeros(x.shape().with(1, missing), DType::f64, x.value().device())), x);
  }

  // [distances, heads, dim] from [1, dim, longest]; the last column is distance 1.
  Tensor distance_keys() const {
    const double* from = file_.numbers("weights/key_pe").data<double>();
    const std::int64_t heads = spans_.shape()[0], dim = head_width();
    const Tensor result =
        Tensor::zeros({longest_ + 1, heads, dim}, DType::f64, testing::backend_device());
    for (std::int64_t distance = 1; distance <= longest_; ++distance)
      for (std::int64_t i = 0; i < heads * dim; ++i)
        result.data<double>()[distance * heads * dim + i] =
            from[i % dim * longest_ + longest_ - distance];
    return result;
  }
  Tensor key_gradient() const {
    const std::int64_t heads = spans_.shape()[0], dim = head_width();
    const Tensor gradient = gradient_of(distances_);
    const Tensor result = Tensor::zeros({1, dim, longest_}, DType::f64, testing::backend_device());
    for (std::int64_t distance = 1; distance <= longest_; ++distance)
      for (std::int64_t i = 0; i < heads * dim; ++i)
        result.data<double>()[i % dim * longest_ + longest_ - distance] +=
            gradient.data<double>()[distance * heads * dim + i];
    return result;
  }

  const GoldenFile& file_;
  std::string prefix_;
  std::int64_t longest_;
  Variable query_;
  Variable key_;
  Variable value_;
  Variable out_;
  Variable spans_;
  Variable distances_;
};

void check_attention_block(const GoldenFile& file) {
  const SpanAttention attend(file, "");
  const Variable h = leaf_of(file, "inputs/h");
  const Variable cache = leaf_of(file, "inputs/h_cache");
  const Variable y = attend(h, cache);
  expect_output(file, "y", y.value());
  backward({y}, {file.numbers("inputs/upstream_y").clone()});
  expect_gradient(file, "h", gradient_of(h));
  expect_gradient(file, "h_cache", gradient_of(cache));
  attend.expect_loss_and_gradients();
}

void check_layer(const GoldenFile& file) {
  const SpanAttention attend(file, "attn_");
  const Variable h = leaf_of(file, "inputs/h");
  const Variable cache = leaf_of(file, "inputs/h_cache");
  const std::vector<std::string> names = {"norm1_weight",
                                          "norm1_bias",
                                          "ff_fc1_weight",
                                          "ff_fc1_bias",
                                          "ff_fc2_weight",
                                          "ff_fc2_bias",
                                          "norm2_weight",
                                          "norm2_bias"};
  std::vector<Variable> w;
  for (const std::string& name : names) w.push_back(leaf_of(file, "weights/" + name));
  expect_extent(file, "d_inner", w[2].shape()[0]);
  const Variable middle = layer_norm(add(h, attend(h, cache)), w[0], w[1], 1e-5);
  const Variable change = feed_forward(middle, {w[2], w[3], w[4], w[5]}, {});
  const Variable y = layer_norm(add(middle, change), w[6], w[7], 1e-5);
  expect_output(file, "y", y.value());
  backward({y}, {file.numbers("inputs/upstream_y").clone()});
  expect_gradient(file, "h", gradient_of(h));
  expect_gradient(file, "h_cache", gradient_of(cache));
  for (std::size_t i = 0; i < names.size(); ++i) expect_gradient(file, names[i], gradient_of(w[i]));
  attend.expect_loss_and_gradients();
}

// The span factors alone: with equal scores and a large floor the probabilities are proportional to
// them. Each row is a separate query; each value is visible in one column only.
void check_mask(const GoldenFile& file) {
  constexpr double floor = 0x1p60;
  const Tensor& x = file.numbers("inputs/x");
  const std::int64_t batch = x.shape()[0], heads = x.shape()[1], block = x.shape()[2];
  const std::int64_t n = x.shape()[3];
  expect_extent(file, "batch", batch);
  expect_extent(file, "heads", heads);
  expect_extent(file, "block", block);
  expect_extent(file, "n", n);
  // Element (b, h, i, j) of a row-major [batch, heads, block, n] in [batch * block, n, heads, n].
  const auto for_each = [&](const auto& f) {
    for (std::int64_t at = 0; at < x.elements(); ++at) {
      const std::int64_t j = at % n, i = at / n % block, h = at / n / block % heads;
      const std::int64_t row = at / n / block / heads * block + i;
      f(at, ((row * n + j) * heads + h) * n + j, (row * heads + h) * n + j);
    }
  };
  const double scale = floor * static_cast<double>(n);
  const auto& device = x.device();
  const Tensor diagonal = Tensor::zeros({batch * block, n, heads, n}, DType::f64, device);
  const Tensor upstream = Tensor::empty({batch * block, 1, heads, n}, DType::f64, device);
  const double* dy = file.numbers("inputs/upstream").data<double>();
  for_each([&](std::int64_t at, std::int64_t value, std::int64_t out) {
    diagonal.data<double>()[value] = scale * x.data<double>()[at];
    upstream.data<double>()[out] = dy[at];
  });
  const Variable spans = spans_of(file);
  const Variable values = Variable::leaf(diagonal);
  const Variable query(Tensor::zeros({batch * block, 1, heads, 1}, DType::f64, device));
  const Variable key(Tensor::zeros({batch * block, n, heads, 1}, DType::f64, device));
  const Variable y =
      attention(query,
                key,
                values,
                {.rules = masks::everything(), .query_begin = n},
                {.span = SpanVariables{.span = spans, .ramp = ramp_of(file), .floor = floor}});
  backward({y}, {upstream});
  const Tensor found = x.empty_like(), dx = x.empty_like();
  for_each([&](std::int64_t at, std::int64_t value, std::int64_t out) {
    found.data<double>()[at] = y.value().data<double>()[out];
    dx.data<double>()[at] = scale * gradient_of(values).data<double>()[value];
  });
  expect_output(file, "y", found);
  expect_gradient(file, "x", dx);
  expect_span_gradient(file, spans, 0);
}

}  // namespace

void check_adaptive_span(const GoldenFile& file) {
  const std::string kind = file.name().substr(std::string("adaptive_span-").size());
  if (kind == "mask") return check_mask(file);
  if (kind == "layer") return check_layer(file);
  if (kind == "attention" || kind.starts_with("attention_")) return check_attention_block(file);
  throw DataError("{}: there is no such case of the adaptive span", file.name());
}

}  // namespace longspan::golden
