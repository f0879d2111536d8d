#include "framework/nn/attention/adaptive_span.h"

#include <algorithm>
#include <cmath>

#include "framework/autograd/ops.h"
#include "framework/nn/attention/softmax_attention.h"
#include "framework/nn/forward_context.h"
#include "framework/nn/positions.h"

namespace longspan {
namespace {

// Windows are multiples of it, as in the authors' code.
constexpr std::int64_t window_step = 64;

std::int64_t window_of(double span, const AdaptiveSpanOptions& form) {
  const auto seen = static_cast<std::int64_t>(std::ceil(span)) + form.ramp;
  return std::min(form.limit, (seen + window_step - 1) / window_step * window_step);
}

// Returns a mask with one window per head of this rank.
AttentionMask windowed(const AdaptiveSpanOptions& form,
                       const AttentionPattern& pattern,
                       const ProjectedQKV& input,
                       const AttentionContext& context,
                       const std::vector<std::int64_t>& windows) {
  const HeadMasks seen = pattern.rules(input.positions(context.mask));
  std::vector<Mask> rules;
  for (std::size_t h = 0; h < windows.size(); ++h)
    rules.push_back(seen.of(input.heads.begin + static_cast<std::int64_t>(h)) &
                    context.mask.rules.of(0) &
                    masks::window(windows[h] - 1 + form.nearest(), -form.nearest()));
  const bool same =
      std::ranges::all_of(rules, [&](const Mask& rule) { return rule == rules.front(); });
  AttentionMask result = context.mask;
  result.rules = same ? HeadMasks(rules.front()) : HeadMasks(std::move(rules));
  result.head_begin = 0;
  return result;
}

// Returns the relative position keys in kernel layout: row r is that of key p - K + r for query p,
// with K the max distance. Rows for keys after the query are zero, and so is the query's own row if
// masked.
Variable key_table(const AdaptiveSpanOptions& form, const Weight& positions, std::int64_t window) {
  const std::int64_t dim = positions->shape[1];
  const std::int64_t farthest = window - 1 + form.nearest();
  const Variable rows = table_rows(positions->variable, {{form.limit - window, form.limit}});
  const std::int64_t unseen = 2 * farthest + 1 - window;
  if (unseen == 0) return rows;
  const Variable zeros(
      Tensor::zeros({1, unseen, dim}, rows.value().dtype(), rows.value().device()));
  return reshape(concat_time(reshape(rows, {1, window, dim}), zeros), {2 * farthest + 1, dim});
}

AttentionTerms span_terms(const AdaptiveSpanOptions& form,
                          const Weight& positions,
                          const std::vector<std::int64_t>& windows,
                          const SpanVariables& span) {
  const Variable table = key_table(form, positions, *std::ranges::max_element(windows));
  return {.shaw = ShawVariables{.key_table = table, .value_table = {}, .made = true}, .span = span};
}

std::vector<double> numbers_of(const Tensor& tensor) {
  const Tensor here = tensor.to_host();
  if (here.dtype() == DType::f64) {
    const auto values = here.span<double>();
    return {values.begin(), values.end()};
  }
  const auto values = here.span<float>();
  return {values.begin(), values.end()};
}

}  // namespace

AdaptiveSpans::AdaptiveSpans(const Scope& attention,
                             const AdaptiveSpanOptions& form,
                             std::int64_t heads)
    : form_(form),
      heads_(attention.part(heads)),
      parts_(
          attention.bounded("span",
                            {heads},
                            Initializer::constant(form.initial / static_cast<double>(form.limit)),
                            {.least = 0, .most = 1},
                            0)) {}

Variable AdaptiveSpans::in_keys() const {
  return multiply_scalar(parts_->variable, static_cast<double>(form_.limit));
}

std::vector<double> AdaptiveSpans::read() const {
  const Tensor& parts = parts_->variable.value();
  if (parts.device().state().is_meta())
    return std::vector<double>(static_cast<std::size_t>(heads_.count), form_.initial);
  std::vector<double> spans = numbers_of(parts);
  for (double& span : spans) span *= static_cast<double>(form_.limit);
  return spans;
}

std::vector<std::int64_t> AdaptiveSpans::windows() const {
  std::vector<std::int64_t> result;
  for (const double span : read()) result.push_back(window_of(span, form_));
  return result;
}

std::int64_t AdaptiveSpans::max_window_length() const {
  const std::vector<std::int64_t> all = windows();
  return *std::ranges::max_element(all);
}

AdaptiveSpans::Extent AdaptiveSpans::extent() const {
  Extent extent;
  for (const double span : read()) {
    extent.sum += span;
    extent.longest = std::max(extent.longest, span);
  }
  return extent;
}

Weight span_positions(const Scope& scope, const AdaptiveSpanOptions& form, std::int64_t dim) {
  return scope.replicated_weight("span_positions", {form.limit, dim}, Initializer::normal(1));
}

Variable AdaptiveSpanAttentionOp::operator()(const ProjectedQKV& input,
                                             const AttentionContext& context,
                                             const ForwardContext& pass) const {
  const std::vector<std::int64_t> windows = spans_.windows();
  const SpanVariables span = {
      .span = spans_.in_keys(), .ramp = static_cast<double>(form_.ramp), .first = form_.nearest()};
  return attend(input,
                windowed(form_, pattern_, input, context, windows),
                span_terms(form_, positions_, windows, span),
                probability_dropout(dropout_, input, context.mask, pass));
}

DynamicSpans::DynamicSpans(const Scope& attention,
                           const AdaptiveSpanOptions& form,
                           std::int64_t heads,
                           std::int64_t width)
    : form_(form),
      weight_(
          attention.child("span").weight("weight", {heads, width}, Initializer::constant(0), 0)),
      bias_(attention.child("span").no_decay_weight(
          "bias",
          {heads},
          Initializer::constant(-std::log(static_cast<double>(form.limit) / form.initial - 1)),
          0)) {}

Variable DynamicSpans::in_keys(const Variable& x) const {
  return token_spans(
      linear(x, weight_->variable, Variable()), bias_->variable, static_cast<double>(form_.limit));
}

// Returns, for each head, the window of its longest span.
std::vector<std::int64_t> DynamicSpanAttentionOp::windows(const Tensor& spans) const {
  const auto heads = static_cast<std::size_t>(spans.shape()[2]);
  std::vector<double> longest(heads, 0);
  if (spans.device().state().is_meta()) {
    std::ranges::fill(longest, form_.initial);
  } else {
    const std::vector<double> all = numbers_of(spans);
    for (std::size_t i = 0; i < all.size(); ++i)
      longest[i % heads] = std::max(longest[i % heads], all[i]);
  }
  std::vector<std::int64_t> result;
  for (const double span : longest) result.push_back(window_of(span, form_));
  return result;
}

Variable DynamicSpanAttentionOp::operator()(const ProjectedQKV& input,
                                            const AttentionContext& context,
                                            const ForwardContext& pass) const {
  require(input.input.defined(), "dynamic spans require the input of the layer");
  const int ranks = input.shares ? input.shares->ranks.size() : 1;
  const std::int64_t time = pass.time.total > 0 ? pass.time.total : input.query.shape()[1];
  const double tokens = static_cast<double>(input.query.shape()[0] * time);
  const Variable spans =
      collect_layer_loss(spans_.in_keys(input.input),
                         "adaptive_span",
                         penalty_,
                         ranks / (tokens * static_cast<double>(input.heads.total)),
                         pass);
  const std::vector<std::int64_t> longest = windows(spans.value());
  const SpanVariables span = {
      .span = spans, .ramp = static_cast<double>(form_.ramp), .first = form_.nearest(), .floor = 0};
  return attend(input,
                windowed(form_, pattern_, input, context, longest),
                span_terms(form_, positions_, longest, span),
                probability_dropout(dropout_, input, context.mask, pass));
}

}  // namespace longspan
