// Iterative non-autoregressive decoding: all tokens are predicted in parallel. Then the least
// probable (mask-predict, Ghazvininejad et al. 2019) or all tokens (Lee et al. 2018) are predicted
// again. Independent of the model: a step function predicts each position.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "framework/decoding/beam_search.h"
#include "framework/modeling/argmax.h"

namespace longspan {

// A hypothesis of fixed length: its tokens and the end token.
struct MaskPredictRow {
  std::int64_t of = 0;  // index of its input
  std::vector<std::int64_t> tokens = {};
};

// Predicts each position of the rows, [rows, longest row]. Positions after a row's end are ignored.
using MaskedStep = std::function<ArgmaxTokens(std::span<const MaskPredictRow> rows)>;

struct MaskPredictInput {
  std::int64_t index = 0;                  // global index of the input, for error messages
  std::vector<std::int64_t> lengths = {};  // candidate lengths in tokens, each at least 1
};

struct MaskPredictOptions {
  std::int64_t end = -1;   // end token
  std::int64_t mask = -1;  // mask token
  // true: the least probable tokens are masked and predicted again. false: all tokens are predicted
  // again until they converge.
  bool remask = true;
  // Initial tokens of a row of n tokens for input `of`; none: mask tokens.
  std::function<std::vector<std::int64_t>(std::int64_t of, std::int64_t n)> first = {};
  std::int64_t iterations = 10;  // calls of the step
  std::int64_t n_best = 1;
};

// Returns how many of `words` tokens iteration c of `iterations` masks, counted from 0: words *
// (iterations - c) / iterations, rounded down.
std::int64_t masked_count(std::int64_t words, std::int64_t iterations, std::int64_t c);

// Returns candidate lengths around a predicted one: length - beam / 2 and the following ones. Each
// is at least 1 and at most `longest` (0: unlimited), without repetition.
std::vector<std::int64_t> candidate_lengths(std::int64_t length,
                                            std::int64_t beam,
                                            std::int64_t longest = 0);

// Returns the best results of each input by score, the mean log-probability of their tokens. A
// token's log-probability is that of the iteration that predicted it. Ties mask the earlier
// position and prefer the earlier length. Throws ConfigurationError for less than one iteration,
// Failure for NaN log-probabilities.
std::vector<std::vector<Hypothesis>> mask_predict(const MaskedStep& step,
                                                  std::span<const MaskPredictInput> inputs,
                                                  const MaskPredictOptions& options);

}  // namespace longspan
