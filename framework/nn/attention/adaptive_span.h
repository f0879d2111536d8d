// Adaptive attention span (Sukhbaatar et al. 2019): each head learns how far back it looks. The key
// that is x keys behind the nearest one has the weight
//   clamp((ramp + z - x) / ramp, 0, 1) in the head's probabilities, which then sum to one again,
// and what is beyond the ramp is not multiplied at all. Positions are a learned key for each
// distance, which heads and layers share: the score is q_p . (key_k + e_x) / sqrt(dim).
#pragma once

#include <cstdint>
#include <vector>

#include "framework/nn/attention/attention_op.h"
#include "framework/nn/attention/pattern.h"

namespace longspan {

struct AdaptiveSpanOptions {
  std::int64_t limit = 1024;  // the longest span, in keys
  std::int64_t ramp = 32;     // keys beyond the span until nothing is seen
  double initial = 0;         // of the spans, in keys
  bool self = false;          // a query sees its own key, which then is the nearest

  // The distance of the nearest key.
  std::int64_t nearest() const { return self ? 0 : 1; }
};

// The spans of one layer's heads: the parameter "span" [heads] has them as parts of the limit, from
// 0 to 1. A value.
class AdaptiveSpans {
 public:
  AdaptiveSpans(const Scope& attention, const AdaptiveSpanOptions& form, std::int64_t heads);

  // z of this rank's heads in keys, [heads], in the dtype of sums.
  Variable in_keys() const;
  // The keys that each of them sees, at most the limit: those that have a weight, and up to 63
  // more, so that plans are few. Where nothing is computed that of the initial span. A GPU is
  // waited for.
  std::vector<std::int64_t> windows() const;
  // The longest of them.
  std::int64_t longest_window() const;
  // The sum of this rank's spans and the longest of them, in keys.
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

// Spans that depend on the token (section 2.2 of the paper): z = limit / (1 + exp(-w_h . x - b_h))
// of the layer's input x at the query, with the parameters "span/weight" [heads, width] and
// "span/bias" [heads]. A value.
class DynamicSpans {
 public:
  // The weights start at 0, the biases so that every span is the form's initial one, which is more
  // than 0 and less than the limit.
  DynamicSpans(const Scope& attention,
               const AdaptiveSpanOptions& form,
               std::int64_t heads,
               std::int64_t width);

  // x: [batch, time, width], inside the region; result: [batch, time, this rank's heads].
  Variable in_keys(const Variable& x) const;

 private:
  AdaptiveSpanOptions form_;
  Weight weight_;
  Weight bias_;
};

// The keys of distances "span_positions" [limit, dim], for all layers: row limit - 1 - x is e_x.
Weight span_positions(const Scope& scope, const AdaptiveSpanOptions& form, std::int64_t dim);

// The model's own mask must be causal.
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
    return spans_.longest_window() - 1 + form_.nearest();
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

// The same with spans that depend on the token. What is beyond a span is not seen at all, so that
// nothing depends on what is multiplied, which is what the longest span of a head in the batch
// reaches. The penalty is an inner loss of the pass, "span": `penalty` times the mean over the
// tokens of the mean span of the heads, for each layer.
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
  // Needs Projected::input.
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
