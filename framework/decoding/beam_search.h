// Beam search and sampling over next-token logits, independent of the model: a step function scores
// each hypothesis.
//
// Results are functions of the logits, independent of batching and input order. Ties prefer the
// lower token, then the earlier hypothesis.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "framework/core/tensor.h"
#include "framework/decoding/sampling.h"

namespace longspan {

// Extends each hypothesis by one token. Hypothesis i continues hypothesis rows[i] of the previous
// call and has now read tokens[i]. The callee reorders its recurrent state by `rows`; hypotheses
// that no entry names are finished. In the first call rows[i] is the index of an input. Returns
// [hypotheses, vocabulary], f32 or f64, on any device: logits up to a constant per row (or
// log-probabilities). -infinity forbids a token.
using SearchStep =
    std::function<Tensor(std::span<const std::int64_t> tokens, std::span<const std::int64_t> rows)>;

struct SearchInput {
  std::int64_t index = 0;  // global index of the input, for random numbers and error messages
  std::int64_t first = 0;  // first token to read: the start of the sentence, or the last token of a
                           // prompt that was read before
  std::int64_t longest = 0;  // maximum length of a result, without its end token
};

struct Hypothesis {
  std::vector<std::int64_t> tokens = {};  // without the first token and the end token
  double log_probability = 0;             // of the tokens, including the end token if it has ended
  double score = 0;                       // log_probability / length penalty
  bool ended = false;                     // by the end token
};

// Token ids of a search.
struct SearchVocabulary {
  std::int64_t end = -1;                     // end token; -1: none
  std::int64_t size = 0;                     // only lower ids are candidates; 0: all logits
  std::vector<std::int64_t> forbidden = {};  // never chosen, but part of the normalization
};

// Divisor of the log-probability of a hypothesis of n tokens, including its end token.
enum class LengthPenalty : std::uint8_t {
  power,  // n^alpha
  wu,     // ((5 + n) / 6)^alpha (Wu et al. 2016, equation 14)
};
double length_penalty(LengthPenalty kind, double alpha, std::int64_t length);

struct BeamOptions {
  SearchVocabulary vocabulary = {};  // requires `end`
  std::int64_t beam = 4;             // active hypotheses per input
  std::int64_t n_best = 1;           // results per input, at most `beam`
  LengthPenalty penalty = LengthPenalty::wu;
  double alpha = 0;  // 0: no length normalization
};

// Returns why the options are invalid; empty if they are valid.
std::string problem_of(const BeamOptions& options);

// Beam search as in fairseq. Of the best 2 `beam` continuations of an input, those that end and
// rank among the first `beam` are finished; the best `beam` others continue. An input is done when
// `beam` hypotheses are finished, and leaves the batch. At the maximum length only the end token is
// allowed. Returns the `n_best` hypotheses of each input, or all if fewer, best first. Throws
// ConfigurationError with problem_of, InvalidLogits as check_logits does, and Failure where no
// token is possible.
std::vector<std::vector<Hypothesis>> beam_search(const SearchStep& step,
                                                 std::span<const SearchInput> inputs,
                                                 const BeamOptions& options);

struct SampleOptions {
  SearchVocabulary vocabulary = {};
  std::int64_t samples = 1;  // of each input
  std::uint64_t seed = 1;
  SamplingOptions sampling = {};  // temperature 0: greedy search
};

// Returns the samples of each input, in order. Token i of sample s uses the random number of (seed,
// index of the input, s, i). A sample that reaches the maximum length has not ended. Throws
// ConfigurationError for options out of range, Failure as beam_search does.
std::vector<std::vector<Hypothesis>> sample(const SearchStep& step,
                                            std::span<const SearchInput> inputs,
                                            const SampleOptions& options);

}  // namespace longspan
