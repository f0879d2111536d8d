// Sequences whose words are all said at once and then said again: the weakest of them
// (Ghazvininejad et al. 2019), or all (Lee et al. 2018). No model is named: a step says what stands
// at each place.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "framework/decoding/beam_search.h"
#include "framework/modeling/argmax_tokens.h"

namespace longspan {

// A result of a given length as it is now: words, and at the end the token that ends it.
struct MaskPredictRow {
  std::int64_t of = 0;  // the place of its input in the list
  std::vector<std::int64_t> tokens = {};
};

// What stands at the places of each row, [rows, longest row]; behind a row's end it is not read.
using MaskedStep = std::function<ArgmaxTokens(std::span<const MaskPredictRow> rows)>;

struct MaskPredictInput {
  std::int64_t index = 0;                  // its number among all inputs: errors name it
  std::vector<std::int64_t> lengths = {};  // the numbers of words that are tried, each at least 1
};

struct MaskPredictOptions {
  std::int64_t end = -1;   // the token that ends a row
  std::int64_t mask = -1;  // the token that stands for a word that is to be said
  // Whether the weakest words are masked and said again, or all are read and said again, until
  // they stay.
  bool remask = true;
  // The words of the first call, of a row of an input that has n; none: the mask.
  std::function<std::vector<std::int64_t>(std::int64_t of, std::int64_t n)> first = {};
  std::int64_t iterations = 10;  // calls of the step
  std::int64_t n_best = 1;
};

// How many of `words` words are said in iteration c of so many, counted from 0: words * (iterations
// - c) / iterations, rounded down.
std::int64_t masked_count(std::int64_t words, std::int64_t iterations, std::int64_t c);

// The lengths that are tried around a predicted one: length - beam / 2 and those after it, each at
// least 1 and at most `longest` (0: any), without repetition.
std::vector<std::int64_t> candidate_lengths(std::int64_t length,
                                            std::int64_t beam,
                                            std::int64_t longest = 0);

// Of each input its best results by the mean log-probability of their words, which is the score. A
// word's is that of the iteration that said it; of equal places the earlier is said again, of equal
// results the earlier length is first. Throws ConfigurationError for less than one iteration,
// Failure for log-probabilities that are not numbers.
std::vector<std::vector<Hypothesis>> mask_predict(const MaskedStep& step,
                                                  std::span<const MaskPredictInput> inputs,
                                                  const MaskPredictOptions& options);

}  // namespace longspan
