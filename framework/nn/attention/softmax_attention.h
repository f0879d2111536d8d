// Scaled dot-product attention (Vaswani et al. 2017). Positions are in the input, in relative terms
// of the scores, or absent.
#pragma once

#include "framework/nn/attention/attention_op.h"
#include "framework/nn/attention/pattern.h"
#include "framework/nn/attention/relative_position_bias.h"
#include "framework/nn/attention/relative_position_tables.h"
#include "framework/nn/attention/softmax_options.h"

namespace longspan {

// Relative position terms of the scores. Value type. Empty if positions are in the input.
struct RelativeTerms {
  std::optional<RelativePositionTables> tables = {};
  Tensor slopes = {};  // ALiBi
  std::optional<RelativePositionBias> bias = {};

  bool empty() const { return !tables && !slopes.defined() && !bias; }
};

class SoftmaxAttention : public AttentionOp {
 public:
  // `dropout` applies to the probabilities.
  explicit SoftmaxAttention(double dropout,
                            AttentionPattern pattern = {},
                            RelativeTerms distances = {},
                            SoftmaxOptions form = {})
      : dropout_(dropout),
        pattern_(std::move(pattern)),
        distances_(std::move(distances)),
        form_(std::move(form)) {}
  bool projects_global() const override { return pattern_.projects_global(); }
  bool supports_kv_cache() const override { return true; }
  bool supports_document_mask() const override { return true; }
  bool supports_grouped_kv() const override { return true; }
  std::optional<std::int64_t> max_distance() const override { return pattern_.max_distance(); }
  Variable operator()(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override;

 private:
  AttentionTerms terms() const;
  Variable by_pattern(const ProjectedQKV& input,
                      const AttentionContext& context,
                      const ForwardContext& pass) const;

  double dropout_;
  AttentionPattern pattern_;
  RelativeTerms distances_;
  SoftmaxOptions form_;
};

// Returns the dropout of the probabilities of this rank's heads. Nothing outside training.
std::optional<AttentionDropout> probability_dropout(double rate,
                                                    const ShardRange& heads,
                                                    const ForwardContext& pass);

}  // namespace longspan
