// Adaptive attention span (Sukhbaatar et al. 2019): each head learns its span z. A key that is x
// keys before the nearest one is weighted by
//   clamp((ramp + z - x) / ramp, 0, 1)
// in the probabilities of the head, which are then renormalized. Keys beyond the ramp are not
// computed. Each relative position has a learned key shared by heads and layers: the score is
//   q_p . (key_k + e_x) / sqrt(dim).
#pragma once

#include <cstdint>
#include <vector>

#include "framework/nn/attention/attention_op.h"
#include "framework/nn/attention/pattern.h"

namespace longspan {

struct AdaptiveSpanOptions {
  std::int64_t limit = 1024;  // longest span, in keys
  std::int64_t ramp = 32;     // keys beyond the span until the weight is 0
  double initial = 0;         // initial span, in keys
  bool self = false;          // a query attends to its own key, which is then the nearest

  // Returns the relative position of the nearest key.
  std::int64_t nearest() const { return self ? 0 : 1; }
};

// Learned spans of the heads of one layer: parameter "span" [heads], as a fraction of the limit
// from 0 to 1. Value type.
class AdaptiveSpans {
 public:
  AdaptiveSpans(const Scope& attention, const AdaptiveSpanOptions& form, std::int64_t heads);

  // Returns z of this rank's heads in keys, [heads], in the accumulator dtype.
  Variable in_keys() const;
  // Returns the number of keys that each head attends to, at most the limit. Counts keys with
  // nonzero weight, plus up to 63 so that few plans are needed. On a dry device uses the initial
  // span. Synchronizes with the GPU.
  std::vector<std::int64_t> windows() const;
  // Returns the maximum of windows().
  std::int64_t max_window_length() const;
  // Sum and maximum of this rank's spans, in keys.
  struct Extent {
    double sum = 0;
    double longest = 0;
  };
  Extent extent() const;
  const ShardRange& heads() const { return heads_; }

 private:
  std::vector<double> read() const;

  AdaptiveSpanOptions form_;
  ShardRange heads_;
  Weight parts_;
};

// Token-dependent spans (section 2.2 of the paper): z = limit / (1 + exp(-w_h . x - b_h)), with x
// the layer input at the query. Parameters: "span/weight" [heads, width] and "span/bias" [heads].
// Value type.
class DynamicSpans {
 public:
  // Initializes weights to 0 and biases so that every span is options.initial. Requires 0 < initial
  // < limit.
  DynamicSpans(const Scope& attention,
               const AdaptiveSpanOptions& form,
               std::int64_t heads,
               std::int64_t width);

  // x: [batch, time, width], inside the region. Returns [batch, time, heads of this rank].
  Variable in_keys(const Variable& x) const;

 private:
  AdaptiveSpanOptions form_;
  Weight weight_;
  Weight bias_;
};

// Creates the relative position keys "span_positions" [limit, dim] for all layers. Row limit - 1 -
// x is e_x.
Weight span_positions(const Scope& scope, const AdaptiveSpanOptions& form, std::int64_t dim);

// Requires a causal model mask.
class AdaptiveSpanAttentionOp : public AttentionOp {
 public:
  AdaptiveSpanAttentionOp(const AdaptiveSpanOptions& form,
                          AdaptiveSpans spans,
                          Weight positions,
                          double dropout,
                          AttentionPattern pattern = {})
      : form_(form),
        spans_(std::move(spans)),
        positions_(std::move(positions)),
        dropout_(dropout),
        pattern_(std::move(pattern)) {}
  bool supports_kv_cache() const override { return true; }
  bool supports_document_mask() const override { return true; }
  bool supports_grouped_kv() const override { return true; }
  std::optional<std::int64_t> max_distance() const override {
    return spans_.max_window_length() - 1 + form_.nearest();
  }
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;

 private:
  AdaptiveSpanOptions form_;
  AdaptiveSpans spans_;
  Weight positions_;
  double dropout_;
  AttentionPattern pattern_;
};

// Adaptive span attention with token-dependent spans. Keys beyond a span are masked, so the result
// does not depend on the computed window, the longest span of each head in the batch. Adds the
// layer loss "adaptive_span": `penalty` times the mean span over heads and tokens, for each layer.
class DynamicSpanAttentionOp : public AttentionOp {
 public:
  DynamicSpanAttentionOp(const AdaptiveSpanOptions& form,
                         DynamicSpans spans,
                         Weight positions,
                         double penalty,
                         double dropout,
                         AttentionPattern pattern = {})
      : form_(form),
        spans_(std::move(spans)),
        positions_(std::move(positions)),
        penalty_(penalty),
        dropout_(dropout),
        pattern_(std::move(pattern)) {}
  bool supports_kv_cache() const override { return true; }
  bool supports_document_mask() const override { return true; }
  bool supports_grouped_kv() const override { return true; }
  std::optional<std::int64_t> max_distance() const override {
    return form_.limit - 1 + form_.nearest();
  }
  // Requires ProjectedQKV::input.
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;

 private:
  std::vector<std::int64_t> windows(const Tensor& spans) const;

  AdaptiveSpanOptions form_;
  DynamicSpans spans_;
  Weight positions_;
  double penalty_;
  double dropout_;
  AttentionPattern pattern_;
};

}  // namespace longspan
