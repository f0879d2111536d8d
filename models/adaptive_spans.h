// Adaptive attention spans of a stack (Sukhbaatar et al. 2019).
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
  adaptive,  // one span per head
  dynamic    // one span per head and token
};

struct SpanOptions {
  SpanKind kind = SpanKind::none;
  AdaptiveSpanOptions form = {};
  // Initial span, in keys. none: the form's default; where that is 0, for dynamic spans, limit / (1
  // + e^4), the sigmoid of -4.
  std::optional<double> initial = {};
  double penalty = 2e-6;  // weight of a layer's mean span, in keys

  bool any() const { return kind != SpanKind::none; }
  AdaptiveSpanOptions merged_options() const;
};

// Declares the keys model.adaptive_span.*.
void declare(OptionTable& table, SpanOptions& options, const ModelOptions& common);

// Returns why a stack does not support spans; empty if it does.
std::string validate_span(const SpanOptions& options, const ModelOptions& common);

// Adaptive spans of the layers of a stack.
class AdaptiveSpanStack {
 public:
  // Creates the relative position keys, which the layers share. Throws ConfigurationError with
  // validate_span.
  AdaptiveSpanStack(const Scope& scope, const SpanOptions& options, const ModelOptions& common);

  // Returns the attention of the next layer, in that layer's scope.
  std::unique_ptr<AttentionOp> add_layer(const Scope& attention, const AttentionPattern& pattern);

  // Collective over the tensor ranks, as is the rest. Returns the penalty of per-head spans, the
  // sum over the layers of their mean, as the term "adaptive_span". Empty for dynamic spans, whose
  // layers report their own penalty.
  // `share`: of the sequence, in a pass over a chunk.
  std::vector<LossTerm> terms(double share) const;
  // Returns the memory length that covers the spans of all layers, with slack for spans to grow.
  // Where nothing is computed it uses the initial spans; dynamic spans use the limit.
  std::int64_t max_mem_len() const;
  // Returns mean and maximum span over all heads and layers, in keys: "adaptive_span_mean" and
  // "adaptive_span_max". Empty for dynamic spans, which depend on the input.
  std::vector<std::pair<std::string, double>> figures() const;

 private:
  SpanOptions options_;
  ModelOptions common_;
  Communicator tensor_;
  Weight positions_;
  std::vector<AdaptiveSpans> layers_;  // empty for dynamic spans
};

}  // namespace longspan
