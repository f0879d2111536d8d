// Sequences from what gives the logits of the next token: beam search and sampling. No model is
// named: a step says what follows each hypothesis.
//
// Results are functions of the logits: how inputs are batched and in which order does not matter.
// Of equal scores the lower token is first, then the earlier hypothesis.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "framework/core/tensor.h"
#include "framework/decoding/sampling.h"

namespace longspan {

// One more token of each hypothesis: hypothesis i goes on what was hypothesis rows[i] in the call
// before, and has now read tokens[i] too. What hypotheses carry is to be chosen and repeated by
// `rows`; those that are named no more are done. In the first call rows[i] is the place of an input
// in the list. The result is logits, or anything from which they differ by a constant in each row
// (log-probabilities): [hypotheses, vocabulary], f32 or f64, on any device; -infinity forbids.
using SearchStep =
    std::function<Tensor(std::span<const std::int64_t> tokens, std::span<const std::int64_t> rows)>;

struct SearchInput {
  std::int64_t index = 0;    // its number among all inputs there are: random numbers go by it, and
                             // errors name it
  std::int64_t first = 0;    // the token that is read first: the beginning of a sentence, or the
                             // last of a prompt that was read before
  std::int64_t longest = 0;  // most tokens of a result, its end not counted
};

struct Hypothesis {
  std::vector<std::int64_t> tokens = {};  // without the first one and without the end
  double log_probability = 0;             // of the tokens, and of the end where it has ended
  double score = 0;                       // log_probability / length penalty
  bool ended = false;                     // by the token that ends
};

// Which tokens there are.
struct SearchVocabulary {
  std::int64_t end = -1;  // the token that ends a hypothesis; -1: none does
  std::int64_t size = 0;  // only ids below it are probable; 0: all that have logits
  std::vector<std::int64_t> forbidden = {};  // never chosen, though they keep their probability
};

// What the log-probability of a hypothesis of n tokens, its end counted, is divided by.
enum class LengthPenalty : std::uint8_t {
  power,  // n^alpha
  wu,     // ((5 + n) / 6)^alpha (Wu et al. 2016, equation 14)
};
double length_penalty(LengthPenalty kind, double alpha, std::int64_t length);

struct BeamOptions {
  SearchVocabulary vocabulary = {};  // `end` is needed
  std::int64_t beam = 4;             // hypotheses of each input that go on
  std::int64_t n_best = 1;           // results of each input, at most as many as `beam`
  LengthPenalty penalty = LengthPenalty::wu;
  double alpha = 0;  // 0: hypotheses of different lengths compare by their probability
};

// What is wrong with the options, as a sentence; empty where nothing is.
std::string problem_of(const BeamOptions& options);

// Beam search as in fairseq: of the best 2 `beam` continuations of an input those that end and are
// among the first `beam` are finished, and the best `beam` others go on. An input is done when
// `beam` are finished, and leaves the batch; at its longest only the end may follow. Of each input
// its best hypotheses by score, in order: `n_best`, or as many as there are. Throws
// ConfigurationError with problem_of, InvalidLogits as check_logits and Failure where nothing can
// come.
std::vector<std::vector<Hypothesis>> beam_search(const SearchStep& step,
                                                 std::span<const SearchInput> inputs,
                                                 const BeamOptions& options);

struct SampleOptions {
  SearchVocabulary vocabulary = {};
  std::int64_t samples = 1;  // of each input
  std::uint64_t seed = 1;
  SamplingOptions sampling = {};  // a temperature of 0 is greedy search
};

// Samples of each input, in their order. Token i of sample s is drawn with the random number of
// (seed, index of the input, s, i). A sample that has reached its longest has not ended. Throws
// ConfigurationError for options out of range, Failure as beam_search.
std::vector<std::vector<Hypothesis>> sample(const SearchStep& step,
                                            std::span<const SearchInput> inputs,
                                            const SampleOptions& options);

}  // namespace longspan
