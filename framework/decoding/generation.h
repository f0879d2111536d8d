// Text from a model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/decoding/sampling.h"
#include "framework/modeling/model.h"

namespace longspan {

struct GenerationOptions {
  std::int64_t tokens = 200;  // of each sample, at most
  std::int64_t samples = 1;
  std::uint64_t seed = 1;
  SamplingOptions sampling = {};
  std::int64_t vocabulary = 0;          // only ids below it are chosen; 0: all of the model's
  std::vector<std::int64_t> ends = {};  // ids that end a sample, and are not part of it
  // Rows remembered; none: as many as in training. 0: as a model that has no memory.
  std::optional<std::int64_t> memory = {};
  // Tokens of the prompt read in one pass. Without memory: the window that is read anew for each
  // token, where the model itself has no limit.
  std::int64_t segment = 256;
};

// What a sample goes on from, which may be larger than memory.
struct Prompt {
  std::int64_t tokens = 0;
  // Fills `out` with the tokens from `begin` on. Each is asked for once at most, in their order.
  std::function<void(std::int64_t begin, std::span<std::int64_t> out)> read;
};

// Throws ConfigurationError, as `generate` does, for options out of range or that do not fit the
// model, and for a prompt of no tokens.
void check_generation(const Model& model,
                      std::int64_t prompt_tokens,
                      const GenerationOptions& options);

// Told each token as soon as it is chosen.
using TokenSink = std::function<void(std::int64_t sample, std::int64_t token)>;

// The samples, without the prompt. With memory the prompt is read once, in segments, and then one
// token a pass: nothing is read twice. A model without memory reads the last tokens, as many as it
// can; their keys are kept until there are more than that, and then all are read again for each.
// Token i of sample s is drawn with the random number of (seed, s, i), from logits that are
// gathered in the order of the vocabulary: the samples are the same on every layout, as far as the
// logits are. Collective over tensor and context ranks; each data rank does the same. Throws
// ConfigurationError for options out of range.
std::vector<std::vector<std::int64_t>> generate(const Model& model,
                                                const Prompt& prompt,
                                                const GenerationOptions& options,
                                                const TokenSink& sink = {});
// The same after these tokens.
std::vector<std::vector<std::int64_t>> generate(const Model& model,
                                                std::span<const std::int64_t> prompt,
                                                const GenerationOptions& options,
                                                const TokenSink& sink = {});

// Bytes in, whole UTF-8 characters out: what may still become a character waits; what cannot
// becomes U+FFFD.
class Utf8Stream {
 public:
  // What can be shown now.
  std::string push(std::string_view bytes);
  // What is left at the end.
  std::string finish();

 private:
  std::string waiting_;
};

}  // namespace longspan
