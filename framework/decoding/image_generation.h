// Images that a model of pixels makes, value by value.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/decoding/sampling.h"
#include "framework/modeling/model.h"

namespace longspan {

// An image that is to be drawn, or completed.
struct PartialImage {
  // Row by row, of each pixel its channels: 0 .. 255, or -1 where they are to be drawn; of a pixel
  // all or none.
  std::vector<std::int64_t> values;
  std::int64_t label = -1;  // an id of its class; -1: none is told
};

struct ImageGenerationOptions {
  SamplingOptions sampling = {};  // with mixtures of logistics the temperature alone
  std::uint64_t seed = 0;
  std::int64_t batch_size = 64;  // images that are read in one pass
};

// Draws what is -1 in the order of generation, each value from what the model says after those
// before it. Image i draws by random numbers of its own: others beside it change nothing. A
// collective; the same on every rank. Throws ConfigurationError for a model that cannot read on
// from kept keys, for top-k or top-p of a model of mixtures, and where context ranks share time.
void sample_images(const Model& model,
                   std::span<PartialImage> images,
                   const ImageGenerationOptions& options);

}  // namespace longspan
