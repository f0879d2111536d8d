// Scaled dot-product attention (Vaswani et al. 2017). Positions are in the input, or in what scores
// have by distance, or nowhere.
#pragma once

#include "framework/nn/attention/distance_bias.h"
#include "framework/nn/attention/distance_tables.h"
#include "framework/nn/attention/mechanism.h"
#include "framework/nn/attention/pattern.h"
#include "framework/nn/attention/softmax_form.h"

namespace longspan {

// What scores have by distance. A value; empty where positions are in the input.
struct DistanceTerms {
  std::optional<DistanceTables> tables = {};
  Tensor slopes = {};  // of ALiBi
  std::optional<DistanceBias> bias = {};

  bool empty() const { return !tables && !slopes.defined() && !bias; }
};

class SoftmaxAttention : public Mechanism {
 public:
  // `dropout` is of the probabilities.
  explicit SoftmaxAttention(double dropout,
                            AttentionPattern pattern = {},
                            DistanceTerms distances = {},
                            SoftmaxForm form = {})
      : dropout_(dropout),
        pattern_(std::move(pattern)),
        distances_(std::move(distances)),
        form_(std::move(form)) {}
  bool projects_global() const override { return pattern_.projects_global(); }
  bool reads_on() const override { return true; }
  bool keeps_documents_apart() const override { return true; }
  bool reads_shared_keys() const override { return true; }
  std::optional<std::int64_t> farthest() const override { return pattern_.farthest(); }
  Variable operator()(const Projected& input,
                      const SegmentContext& context,
                      const Pass& pass) const override;

 private:
  AttentionTerms terms() const;
  Variable by_pattern(const Projected& input,
                      const SegmentContext& context,
                      const Pass& pass) const;

  double dropout_;
  AttentionPattern pattern_;
  DistanceTerms distances_;
  SoftmaxForm form_;
};

// Dropout of the probabilities of this rank's heads; nothing without training.
std::optional<AttentionDropout> probability_dropout(double rate,
                                                    const Part& heads,
                                                    const Pass& pass);

}  // namespace longspan
