// What a model that was trained on pairs makes of lines.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/data/tokenization/special_token_ids.h"
#include "framework/data/tokenization/tokenizer.h"
#include "framework/decoding/beam_search.h"
#include "framework/modeling/model.h"

namespace longspan {

struct TranslateOptions {
  std::int64_t beam = 4;  // 1: greedy
  std::int64_t n_best = 1;
  LengthPenalty penalty = LengthPenalty::wu;
  double alpha = 0.6;
  std::optional<SamplingOptions> sampling = {};  // instead of a beam: `n_best` samples
  std::uint64_t seed = 1;                        // of the samples
  std::int64_t max_extra_length = 50;  // a result has at most so many tokens more than its source
  std::int64_t longest_source = 0;     // a line is cut after so many tokens; 0: it is read whole
  SpecialTokenNames special_tokens = {};  // as the model learnt them
  // Of model.decoder_type: non_autoregressive, how often words are said, and how many lengths
  // around the predicted one are tried.
  std::int64_t iterations = 10;
  std::int64_t length_beam = 5;
  std::int64_t batch_tokens = 4096;  // of the sources read at once, padding included
};

struct Translation {
  std::string text;
  double score = 0;            // log_probability / length penalty
  double log_probability = 0;  // nats
};

// Of each line its results, the best first. A line is framed as its tokenizer says
// (special_token_template.h), and what frames a result is no part of its text. Lines are read in
// batches of like length, which the data ranks share; a line's results do not depend on the others,
// nor on the layout as far as the logits do not. An empty line has one empty result. Collective;
// the same on every rank, which are all given the same lines. `told` hears how many lines are done.
// Throws ConfigurationError for options out of range, DataError for a line that the model or the
// tokenizer cannot read: `place(i)` begins the sentence. Not-a-number and infinite logits end with
// a Failure that names the line's number, counted from 0, as "input".
std::vector<std::vector<Translation>> translate(
    const Model& model,
    const Tokenizer& tokenizer,
    std::span<const std::string> lines,
    const TranslateOptions& options,
    const std::function<std::string(std::size_t)>& place,
    const std::function<void(std::size_t)>& told = {});

}  // namespace longspan
