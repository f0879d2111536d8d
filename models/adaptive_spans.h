// Attention whose heads learn how far back they look, of a stack (Sukhbaatar et al. 2019).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/nn/attention/adaptive_span.h"
#include "models/model_options.h"

namespace longspan {

enum class SpanKind : std::uint8_t {
  none,
  adaptive,  // a span for each head
  dynamic    // for each head and token
};

struct SpanOptions {
  SpanKind kind = SpanKind::none;
  AdaptiveSpanOptions form = {};
  // Of the spans, in keys; none: the form's, and where that is 0, for dynamic ones, limit / (1 +
  // e^4), the logistic function of -4.
  std::optional<double> initial = {};
  double penalty = 2e-6;  // of a layer's mean span, in keys

  bool any() const { return kind != SpanKind::none; }
  AdaptiveSpanOptions whole_form() const;
};

// The keys model.adaptive_span.*.
void declare(OptionTable& table, SpanOptions& options, const ModelOptions& common);

// What keeps a stack from having spans, as a sentence; empty where nothing does.
std::string span_problem(const SpanOptions& options, const ModelOptions& common);

// The spans of the layers of a stack that has them.
class AdaptiveSpanStack {
 public:
  // Makes the keys of distances, which the layers share. Throws ConfigurationError with
  // span_problem.
  AdaptiveSpanStack(const Scope& scope, const SpanOptions& options, const ModelOptions& common);

  // The attention of the next layer, in the scope of its attention.
  std::unique_ptr<AttentionOp> add_layer(const Scope& attention, const AttentionPattern& pattern);

  // The penalty of spans of heads: the sum over the layers of their mean, as the term "span"; none
  // of spans of tokens, whose layers tell theirs. Collective over the tensor ranks, as what
  // follows.
  std::vector<LossTerm> terms() const;
  // The memory that no head of any layer sees beyond, and some slack in which spans may grow: where
  // nothing is computed that of the initial spans, of spans of tokens the limit.
  std::int64_t longest_memory() const;
  // The mean and the longest span of all heads of all layers, in keys: "span_mean" and
  // "span_longest". None of spans of tokens, which the weights alone do not tell.
  std::vector<std::pair<std::string, double>> figures() const;

 private:
  SpanOptions options_;
  ModelOptions common_;
  Communicator tensor_;
  Weight positions_;
  std::vector<AdaptiveSpans> layers_;  // none of spans of tokens
};

}  // namespace longspan
