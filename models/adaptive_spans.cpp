#include "models/adaptive_spans.h"

#include <algorithm>
#include <cmath>

#include "framework/autograd/collectives.h"
#include "framework/autograd/ops.h"

namespace longspan {
namespace {

// Memory positions beyond the longest span, as in the authors' code.
constexpr std::int64_t slack = 64;

const char* name_of(SpanKind kind) {
  switch (kind) {
    case SpanKind::none:
      return "none";
    case SpanKind::adaptive:
      return "adaptive";
    case SpanKind::dynamic:
      return "dynamic";
  }
  return "";
}

}  // namespace

AdaptiveSpanOptions SpanOptions::merged_options() const {
  AdaptiveSpanOptions whole = form;
  if (initial) whole.initial = *initial;
  if (!initial && kind == SpanKind::dynamic && form.initial == 0)
    whole.initial = static_cast<double>(form.limit) / (1 + std::exp(4));
  return whole;
}

std::string validate_span(const SpanOptions& options, const ModelOptions& common) {
  if (!options.any()) return "";
  if (const AttentionKind* const kind = first_kind_without_relative_positions(common.attention))
    return fmt::format(
        "model.adaptive_span.type: {} does not support {} in "
        "model.attention.layer_types; set it to none",
        name_of(options.kind),
        kind->name);
  if (const char* const key = softmax_form_key(common))
    return fmt::format("model.adaptive_span.type does not support model.{}; set only one of them",
                       key);
  for (std::int64_t layer = 0; layer < common.layers; ++layer)
    if (projects_global(common.attention, layer))
      return "model.adaptive_span.type does not support "
             "model.attention.global_local.separate_global_projections; set only one of them";
  const double initial = options.merged_options().initial;
  const auto limit = static_cast<double>(options.form.limit);
  if (initial > limit)
    return fmt::format(
        "model.adaptive_span.init_span: expected at most "
        "model.adaptive_span.max_span = {}, found {}",
        options.form.limit,
        initial);
  if (options.kind == SpanKind::dynamic && (initial <= 0 || initial >= limit))
    return fmt::format(
        "model.adaptive_span.init_span: expected more than 0 and less than "
        "model.adaptive_span.max_span = {} for dynamic spans, found {}",
        options.form.limit,
        initial);
  return "";
}

void declare(OptionTable& table, SpanOptions& options, const ModelOptions& common) {
  table.add(
      "model.adaptive_span.type",
      options.kind,
      "attention span: none (given by model.attention.layer_types), adaptive (learned per head, "
      "Sukhbaatar et al. 2019) or dynamic (predicted for each token). The last two use a learned "
      "key per relative position",
      {{"none", SpanKind::none}, {"adaptive", SpanKind::adaptive}, {"dynamic", SpanKind::dynamic}},
      affects_weights());
  table.add("model.adaptive_span.max_span",
            options.form.limit,
            "maximum span in keys",
            between(1, 1 << 24),
            affects_weights(),
            only_with(is("model.adaptive_span.type", {"adaptive", "dynamic"})));
  table.add("model.adaptive_span.ramp",
            options.form.ramp,
            "length of the soft ramp beyond a span, in keys",
            between(1, 1 << 20),
            only_with(is("model.adaptive_span.type", {"adaptive", "dynamic"})));
  table.add("model.adaptive_span.init_span",
            options.initial,
            "initial span in keys, without the ramp; none: 0 for adaptive, "
            "model.adaptive_span.max_span / (1 + e^4) for dynamic",
            at_least(0.0),
            only_with(is("model.adaptive_span.type", {"adaptive", "dynamic"})));
  table.add("model.adaptive_span.attend_self",
            options.form.self,
            "attention of a query to its own key; false: to earlier keys only",
            only_with(is("model.adaptive_span.type", {"adaptive", "dynamic"})));
  table.add("model.adaptive_span.loss_weight",
            options.penalty,
            "loss per key of a layer's mean span",
            at_least(0.0),
            only_with(is("model.adaptive_span.type", {"adaptive", "dynamic"})));
  table.check({"model.adaptive_span.type",
               "model.adaptive_span.max_span",
               "model.adaptive_span.init_span",
               "model.attention.layer_types",
               "model.attention.global_local.separate_global_projections",
               "model.attention.learned_sinks",
               "model.attention.logit_softcapping",
               "model.attention.scale_attn_weights"},
              [&options, &common] { return validate_span(options, common); });
}

AdaptiveSpanStack::AdaptiveSpanStack(const Scope& scope,
                                     const SpanOptions& options,
                                     const ModelOptions& common)
    : options_(options), common_(common), tensor_(scope.parameters().mesh().tensor) {
  throw_if_error(validate_span(options, common));
  options_.form = options.merged_options();
  positions_ = span_positions(scope, options_.form, common.head_dim());
}

std::unique_ptr<AttentionOp> AdaptiveSpanStack::add_layer(const Scope& attention,
                                                          const AttentionPattern& pattern) {
  if (options_.kind == SpanKind::dynamic)
    return std::make_unique<DynamicSpanAttentionOp>(
        options_.form,
        DynamicSpans(attention, options_.form, common_.heads, common_.width),
        positions_,
        options_.penalty,
        common_.attention_dropout,
        pattern);
  layers_.emplace_back(attention, options_.form, common_.heads);
  return std::make_unique<AdaptiveSpanAttentionOp>(
      options_.form, layers_.back(), positions_, common_.attention_dropout, pattern);
}

std::vector<LossTerm> AdaptiveSpanStack::terms(double share) const {
  if (layers_.empty()) return {};
  Variable total;
  for (const AdaptiveSpans& layer : layers_) {
    const Variable mean = sum(layer.in_keys(), share / static_cast<double>(common_.heads));
    total = total.defined() ? add(total, mean) : mean;
  }
  if (tensor_.size() > 1) total = reduce_from_tensor_parallel_region(std::move(total), tensor_);
  return {{.name = "adaptive_span",
           .values = std::move(total),
           .count = "",
           .weight = options_.penalty}};
}

std::int64_t AdaptiveSpanStack::max_mem_len() const {
  if (layers_.empty()) return options_.form.limit;
  std::int64_t longest = 0;
  for (const AdaptiveSpans& layer : layers_) longest = std::max(longest, layer.max_window_length());
  longest = tensor_.all_reduce(longest, Reduction::maximum);
  return std::min(options_.form.limit, longest + slack);
}

std::vector<std::pair<std::string, double>> AdaptiveSpanStack::figures() const {
  if (layers_.empty()) return {};
  double total = 0, longest = 0;
  for (const AdaptiveSpans& layer : layers_) {
    const AdaptiveSpans::Extent extent = layer.extent();
    total += extent.sum;
    longest = std::max(longest, extent.longest);
  }
  total = tensor_.all_reduce(total, Reduction::sum);
  longest = tensor_.all_reduce(longest, Reduction::maximum);
  const auto heads = static_cast<double>(common_.heads * std::ssize(layers_));
  return {{"adaptive_span_mean", total / heads}, {"adaptive_span_max", longest}};
}

}  // namespace longspan
