// Decodes lines with a model trained on pairs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/data/tokenization/special_tokens.h"
#include "framework/data/tokenization/tokenizer.h"
#include "framework/decoding/beam_search.h"
#include "framework/decoding/mask_predict.h"
#include "framework/modeling/model.h"

namespace longspan {

struct TranslateOptions {
  std::int64_t beam = 4;  // 1: greedy
  std::int64_t n_best = 1;
  LengthPenalty penalty = LengthPenalty::wu;
  double alpha = 0.6;
  std::optional<SamplingOptions> sampling = {};  // `n_best` samples instead of beam search
  std::uint64_t seed = 1;                        // of the samples
  std::int64_t max_extra_length = 50;     // maximum length of a result beyond its source, in tokens
  std::int64_t max_source_length = 0;     // maximum source length, truncated; 0: unlimited
  SpecialTokenNames special_tokens = {};  // as in training
  // Only with model.decoder_type: non_autoregressive: the number of iterations, and of candidate
  // lengths around the predicted one.
  std::int64_t iterations = 10;
  std::int64_t length_beam = 5;
  std::int64_t batch_tokens = 4096;  // source tokens per batch, including padding
};

struct Translation {
  std::string text;
  double score = 0;            // log_probability / length penalty
  double log_probability = 0;  // nats
};

// Collective; equal on every rank. All ranks must pass the same lines. Returns the results of each
// line, best first. The tokenizer's template frames each line (special_tokens.h), and
// results exclude it. Lines are batched by length and sharded over the data ranks. Results are
// independent of the other lines, and of the layout if the logits are. An empty line has one empty
// result. `told` receives the number of finished lines. Throws ConfigurationError for options out
// of range, and DataError, prefixed with `place(i)`, for a line that the model or the tokenizer
// cannot read. Throws Failure for NaN or infinite logits; it names the line as "input", counted
// from 0.
std::vector<std::vector<Translation>> translate(
    const Model& model,
    const Tokenizer& tokenizer,
    std::span<const std::string> lines,
    const TranslateOptions& options,
    const std::function<std::string(std::size_t)>& place,
    const std::function<void(std::size_t)>& told = {});

// Returns the step of incremental decoding (beam_search.h). It encodes each source, token ids with
// special tokens, in the first call. A call is collective over the ranks that share the rows' time
// or the weights. `model` and `sources` must outlive the step.
SearchStep target_step(const Model& model,
                       std::span<const std::vector<std::int64_t>> sources,
                       const SpecialTokenIds& special);

// Returns the ids that results may have.
SearchVocabulary target_vocabulary(const Tokenizer& tokenizer, const SpecialTokenIds& special);

// Decoding of non-autoregressive models.

struct MaskedSearchOptions {
  SearchVocabulary vocabulary = {};
  std::int64_t iterations = 10;
  std::int64_t lengths = 5;  // candidate lengths around the predicted one
  std::int64_t n_best = 1;
};

// Returns why the options are invalid; empty if they are valid.
std::string problem_of(const MaskedSearchOptions& options);

// Collective over the ranks that share the rows' time or the weights; equal on them. Returns the
// best results of each source (token ids); `inputs` give the maximum lengths. Each source is
// encoded once. Throws as mask_predict does.
std::vector<std::vector<Hypothesis>> masked_search(
    const Model& model,
    std::span<const std::vector<std::int64_t>> sources,
    std::span<const SearchInput> inputs,
    const MaskedSearchOptions& options);

}  // namespace longspan
