// Generation of texts and images.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/random.h"
#include "framework/decoding/sampling.h"
#include "framework/modeling/model.h"

namespace longspan {

struct GenerationOptions {
  std::int64_t tokens = 200;  // maximum length of a sample
  std::int64_t samples = 1;
  std::uint64_t seed = 1;
  SamplingOptions sampling = {};
  std::int64_t vocabulary = 0;          // only lower ids are candidates; 0: the model's vocabulary
  std::vector<std::int64_t> ends = {};  // end tokens, which are not part of a sample
  // Memory length; none: as in training. 0: no memory.
  std::optional<std::int64_t> memory = {};
  // Prompt tokens per forward pass. Without memory and memory.bptt_chunk_length: the window that is
  // recomputed for each token, if the model itself has no limit. Of a stateful model: the segment
  // within which it attends.
  std::int64_t segment = 256;
};

// Prompt to continue, which need not fit into memory.
struct Prompt {
  std::int64_t tokens = 0;
  // Fills `out` with the tokens from `begin` on. Each token is requested at most once, in order.
  std::function<void(std::int64_t begin, std::span<std::int64_t> out)> read;
};

// Throws ConfigurationError for an empty prompt and for options that are out of range or do not fit
// the model, as `generate` does.
void check_generation(const Model& model,
                      std::int64_t prompt_tokens,
                      const GenerationOptions& options);

// Receives each token as soon as it is chosen.
using TokenSink = std::function<void(std::int64_t sample, std::int64_t token)>;

// Collective over tensor and context ranks; data ranks compute the same. Returns the samples
// without the prompt. With memory the prompt is read once, in segments, then each pass reads one
// token. Without memory the model reads the last tokens up to its limit. Their keys are cached
// until the limit is exceeded; then each token recomputes the window. With memory.bptt_chunk_length
// the prompt is read in chunks of that length; without memory and without a limit of its positions
// the model then continues from the states after the whole text, however long. A stateful model
// continues its recurrent states over segments of options.segment tokens. Token i of sample s
// uses the random number of (seed, s, i). Logits are gathered in vocabulary order, so samples are
// equal on every layout if the logits are. Throws ConfigurationError for options out of range.
std::vector<std::vector<std::int64_t>> generate(const Model& model,
                                                const Prompt& prompt,
                                                const GenerationOptions& options,
                                                const TokenSink& sink = {});
// As above, with the prompt as a list of tokens.
std::vector<std::vector<std::int64_t>> generate(const Model& model,
                                                std::span<const std::int64_t> prompt,
                                                const GenerationOptions& options,
                                                const TokenSink& sink = {});

// Converts bytes to complete UTF-8 characters. Incomplete characters are buffered; invalid ones
// become U+FFFD.
class Utf8Stream {
 public:
  // Returns the complete characters so far.
  std::string push(std::string_view bytes);
  // Returns the remainder at the end.
  std::string finish();

 private:
  std::string waiting_;
};

// Autoregressive image generation.

// An image to generate or complete.
struct PartialImage {
  // In raster order, channels last: 0 .. 255, or -1 to generate. A pixel has all channels or none.
  std::vector<std::int64_t> values;
  std::int64_t label = -1;  // class id; -1: none
  // Values of the source image, in raster order (OutputHeadSpec::source_image).
  std::vector<std::int64_t> source = {};
};

struct ImageGenerationOptions {
  SamplingOptions sampling = {};  // mixtures of logistics support the temperature only
  std::uint64_t seed = 0;
  std::int64_t batch_size = 64;  // images per forward pass
};

// Collective; the result is equal on every rank. Generates values of -1 in generation order, each
// conditioned on the values before it. Image i uses its own random numbers, so results are
// independent of the batch. Throws ConfigurationError for a model without KV cache support, for
// top-k or top-p with mixtures, and for context parallelism. Requires sources if the model reads
// them.
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
