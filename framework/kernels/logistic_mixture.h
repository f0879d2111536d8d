// Discretized mixture of logistics over the color channels of a pixel (PixelCNN++, Salimans et al.
// 2017, equations 1 to 3).
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// Returns the number of distribution parameters of a pixel with 1 or 3 channels. Each mixture
// component has one logit. Each channel of a component has a mean, a log scale and, with 3
// channels, a coefficient.
constexpr std::int64_t mixture_parameters(std::int64_t mixtures, std::int64_t channels) {
  return mixtures * (1 + channels * (channels == 1 ? 2 : 3));
}

// losses: negative log-probability of each pixel in nats, or 0 if its first value is negative.
// losses: [pixels], accumulator dtype, overwritten. values: [pixels, channels] i64, 0 .. 255.
// parameters: [pixels, mixture_parameters], floating: logits, then for each channel `mixtures`
// means, log scales and coefficients. Log scales are clamped to at least -7, and tanh is applied to
// coefficients.
//
// A value v represents the intensity 2 v / 255 - 1. The mean of green is shifted by the first
// coefficient times red. The mean of blue is shifted by the second times red and the third times
// green. The probability of a value is the logistic's mass within 1 / 255 of it; values 0 and 255
// also receive the tails. It is computed as a product of three factors, which loses no precision
// for small probabilities. The bin-center density that the authors' code uses below 1e-5 is
// therefore not needed.
struct LogisticMixture {
  Tensor parameters;
  Tensor values;
  std::int64_t mixtures = 10;
  Tensor losses;
};
void logistic_mixture(Cpu, const LogisticMixture&);
void logistic_mixture(Cuda, const LogisticMixture&);

// Overwrites dparameters: [pixels, mixture_parameters], dtype of the parameters. dlosses: [pixels].
struct LogisticMixtureGradient {
  Tensor parameters;
  Tensor values;
  std::int64_t mixtures = 10;
  Tensor dlosses;
  Tensor dparameters;
};
void logistic_mixture_backward(Cpu, const LogisticMixtureGradient&);
void logistic_mixture_backward(Cuda, const LogisticMixtureGradient&);

// Throws Failure if shapes or dtypes do not match the comments above.
void check(const LogisticMixture&);
void check(const LogisticMixtureGradient&);

}  // namespace longspan
