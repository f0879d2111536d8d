// Autoregressive image generation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/core/random.h"
#include "framework/decoding/sampling.h"
#include "framework/modeling/model.h"

namespace longspan {

// An image to generate or complete.
struct PartialImage {
  // In raster order, channels last: 0 .. 255, or -1 to generate. A pixel has all channels or none.
  std::vector<std::int64_t> values;
  std::int64_t label = -1;  // class id; -1: none
};

struct ImageGenerationOptions {
  SamplingOptions sampling = {};  // mixtures of logistics support the temperature only
  std::uint64_t seed = 0;
  std::int64_t batch_size = 64;  // images per forward pass
};

// Collective; the result is equal on every rank. Generates values of -1 in generation order, each
// conditioned on the values before it. Image i uses its own random numbers, so results are
// independent of the batch. Throws ConfigurationError for a model without KV cache support, for
// top-k or top-p with mixtures, and for context parallelism.
void sample_images(const Model& model,
                   std::span<PartialImage> images,
                   const ImageGenerationOptions& options);

// Samples `values`, a pixel's channels, in order: a mixture component by its logit, then for each
// channel the level (of 256) nearest to a draw from its logistic. Earlier channels shift the mean
// (kernels/logistic_mixture.h). numbers: mixture_parameters. The temperature divides the logits and
// multiplies the scales; at 0 the means of the most likely component are used. Throws Failure for
// non-finite parameters.
void sample_logistic_mixture(std::span<const double> numbers,
                             std::int64_t mixtures,
                             double temperature,
                             const Random& place,
                             std::span<std::int64_t> values);

}  // namespace longspan
