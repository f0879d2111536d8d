#include "framework/nn/attention/span_attention.h"

#include <algorithm>
#include <cmath>

#include "framework/autograd/scaled.h"
#include "framework/nn/attention/softmax_attention.h"
#include "framework/nn/positions.h"

namespace longspan {
namespace {

// Windows are multiples of it, as in the authors' code.
constexpr std::int64_t window_step = 64;

std::int64_t window_of(double span, const SpanForm& form) {
  const auto seen = static_cast<std::int64_t>(std::ceil(span)) + form.ramp;
  return std::min(form.limit, (seen + window_step - 1) / window_step * window_step);
}

}  // namespace

HeadSpans::HeadSpans(const Scope& attention, const SpanForm& form, std::int64_t heads)
    : form_(form),
      heads_(attention.part(heads)),
      parts_(attention.bounded("span",
                               {heads},
                               Initial::constant(form.initial / static_cast<double>(form.limit)),
                               {.least = 0, .most = 1},
                               0)) {}

Variable HeadSpans::in_keys() const {
  return scaled(parts_->variable, static_cast<double>(form_.limit));
}

std::vector<double> HeadSpans::read() const {
  const Tensor& parts = parts_->variable.value();
  const double limit = static_cast<double>(form_.limit);
  if (parts.device().state().dry())
    return std::vector<double>(static_cast<std::size_t>(heads_.count), form_.initial);
  std::vector<double> spans;
  const Tensor here = parts.to_host();
  if (here.dtype() == DType::f64)
    for (const double part : here.span<double>()) spans.push_back(part * limit);
  else
    for (const float part : here.span<float>()) spans.push_back(static_cast<double>(part) * limit);
  return spans;
}

std::vector<std::int64_t> HeadSpans::windows() const {
  std::vector<std::int64_t> result;
  for (const double span : read()) result.push_back(window_of(span, form_));
  return result;
}

std::int64_t HeadSpans::longest_window() const {
  const std::vector<std::int64_t> all = windows();
  return *std::ranges::max_element(all);
}

HeadSpans::Extent HeadSpans::extent() const {
  Extent extent;
  for (const double span : read()) {
    extent.sum += span;
    extent.longest = std::max(extent.longest, span);
  }
  return extent;
}

Weight span_positions(const Scope& scope, const SpanForm& form, std::int64_t dim) {
  return scope.inside_weight("span_positions", {form.limit, dim}, Initial::normal(1));
}

// A window for each of this rank's heads.
AttentionMask SpanAttention::mask(const Projected& input,
                                  const SegmentContext& context,
                                  const std::vector<std::int64_t>& windows) const {
  const HeadMasks seen = pattern_.rules(context.mask.key_begin + input.positions());
  std::vector<Mask> rules;
  for (std::size_t h = 0; h < windows.size(); ++h)
    rules.push_back(seen.of(input.heads.begin + static_cast<std::int64_t>(h)) &
                    context.mask.rules.of(0) &
                    masks::window(windows[h] - 1 + form_.nearest(), -form_.nearest()));
  const bool same =
      std::ranges::all_of(rules, [&](const Mask& rule) { return rule == rules.front(); });
  AttentionMask result = context.mask;
  result.rules = same ? HeadMasks(rules.front()) : HeadMasks(std::move(rules));
  result.head_begin = 0;
  return result;
}

// As the engine reads it: row r is that of key p - K + r for query p, with K the farthest distance.
// Keys after the query, and the query's own where it is not seen, have zeros.
Variable SpanAttention::key_table(std::int64_t window) const {
  const std::int64_t dim = positions_->shape[1];
  const std::int64_t farthest = window - 1 + form_.nearest();
  const Variable rows = table_rows(positions_->variable, {{form_.limit - window, form_.limit}});
  const std::int64_t unseen = 2 * farthest + 1 - window;
  if (unseen == 0) return rows;
  const Variable zeros(
      Tensor::zeros({1, unseen, dim}, rows.value().dtype(), rows.value().device()));
  return reshape(concat_time(reshape(rows, {1, window, dim}), zeros), {2 * farthest + 1, dim});
}

Variable SpanAttention::operator()(const Projected& input,
                                   const SegmentContext& context,
                                   const Pass& pass) const {
  const std::vector<std::int64_t> windows = spans_.windows();
  const Variable table = key_table(*std::ranges::max_element(windows));
  const AttentionTerms terms = {.shaw = ShawVariables{.key_table = table, .made = true},
                                .span = SpanVariables{.span = spans_.in_keys(),
                                                      .ramp = static_cast<double>(form_.ramp),
                                                      .first = form_.nearest()}};
  return attend(input,
                mask(input, context, windows),
                terms,
                probability_dropout(dropout_, input.heads, pass));
}

}  // namespace longspan
