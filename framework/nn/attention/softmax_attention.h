// Scaled dot-product attention (Vaswani et al. 2017): positions, if any, are in the input.
#pragma once

#include "framework/nn/attention/mechanism.h"
#include "framework/nn/attention/pattern.h"

namespace longspan {

class SoftmaxAttention : public Mechanism {
 public:
  // `dropout` is of the probabilities.
  explicit SoftmaxAttention(double dropout, AttentionPattern pattern = {})
      : dropout_(dropout), pattern_(std::move(pattern)) {}
  bool projects_global() const override { return pattern_.projects_global(); }
  bool reads_on() const override { return true; }
  Variable operator()(const Projected& input,
                      const SegmentContext& context,
                      const Pass& pass) const override;

 private:
  Variable by_pattern(const Projected& input,
                      const SegmentContext& context,
                      const Pass& pass) const;

  double dropout_;
  AttentionPattern pattern_;
};

// Dropout of the probabilities of this rank's heads; nothing without training.
std::optional<AttentionDropout> probability_dropout(double rate,
                                                    const Part& heads,
                                                    const Pass& pass);

}  // namespace longspan
