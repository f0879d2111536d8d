// Scaled dot-product attention (Vaswani et al. 2017): positions, if any, are in the input.
#pragma once

#include "framework/nn/attention/mechanism.h"

namespace longspan {

class SoftmaxAttention : public Mechanism {
 public:
  // `dropout` is of the probabilities.
  explicit SoftmaxAttention(double dropout) : dropout_(dropout) {}
  Variable operator()(const Projected& input,
                      const SegmentContext& context,
                      const Pass& pass) const override;

 private:
  double dropout_;
};

// Dropout of the probabilities of this rank's heads; nothing without training.
std::optional<AttentionDropout> probability_dropout(double rate,
                                                    const Part& heads,
                                                    const Pass& pass);

}  // namespace longspan
