// Discretised mixtures of logistics: the probability of the colours of a pixel (Salimans et al.
// 2017, PixelCNN++, equations 1 to 3).
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// Numbers that say the distribution of a pixel of 1 or 3 channels: of each of the mixtures a logit,
// and of each channel and mixture a mean, the logarithm of a scale and, where there are 3, a
// coefficient.
constexpr std::int64_t mixture_parameters(std::int64_t mixtures, std::int64_t channels) {
  return mixtures * (1 + channels * (channels == 1 ? 2 : 3));
}

// losses: minus the log-probability of each pixel, in nats, 0 where its first value is negative.
// parameters: [pixels, mixture_parameters], of a floating dtype: logits, then channel by channel
// means, logarithms of scales (those below -7 count as -7) and coefficients (before a tanh),
// `mixtures` of each. values: [pixels, channels] i64, 0 .. 255. losses: [pixels], accumulator
// dtype, written.
//
// A value stands for 2 v / 255 - 1. The mean of green is moved by the first coefficient times red,
// that of blue by the second times red and the third times green. The probability of a value is
// what the logistic has within 1 / 255 of it; the first and the last have the tails. It is computed
// as a product of three factors that loses no digits however small it is, so that the density at
// the middle of the bin, which the authors' code takes below 1e-5, is not needed.
struct LogisticMixture {
  Tensor parameters;
  Tensor values;
  std::int64_t mixtures = 10;
  Tensor losses;
};
void logistic_mixture(Cpu, const LogisticMixture&);
void logistic_mixture(Cuda, const LogisticMixture&);

// dparameters: [pixels, mixture_parameters], of the parameters' dtype, written. dlosses: [pixels].
struct LogisticMixtureGradient {
  Tensor parameters;
  Tensor values;
  std::int64_t mixtures = 10;
  Tensor dlosses;
  Tensor dparameters;
};
void logistic_mixture_backward(Cpu, const LogisticMixtureGradient&);
void logistic_mixture_backward(Cuda, const LogisticMixtureGradient&);

// Throw Failure where shapes or dtypes are not as said above.
void check(const LogisticMixture&);
void check(const LogisticMixtureGradient&);

}  // namespace longspan
