// Samples a token from logits, with temperature, top-k and top-p.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/random.h"

namespace longspan {

struct SamplingOptions {
  double temperature = 1;  // divides the logits; 0: greedy
  std::int64_t top_k = 0;  // only the k most likely tokens; 0: all
  double top_p = 1;        // only the smallest set of these with at least this total probability
};

// Throws ConfigurationError for options out of range.
void check_sampling(const SamplingOptions& options);

// Logits that no token can be sampled from, as of weights that are NaN or have diverged.
class InvalidLogits : public Failure {
 public:
  using Failure::Failure;
};

// Throws InvalidLogits for NaN or +infinity, and where all logits are -infinity. A logit of
// -infinity forbids its token.
void check_logits(std::span<const double> logits);

// Returns the sum of e^((logit - highest) / temperature), for a temperature above 0. Equal for T =
// float and double, so that results do not depend on how the logits were transferred.
template <typename T>
double sum_of_exponentials(std::span<const T> logits, double highest, double temperature = 1);

struct Candidate {
  std::int64_t token = 0;
  double probability = 0;
};

// Returns the candidate tokens, most likely first (ties: lower id), with probabilities that sum to
// 1. Applies temperature, then top-k, then top-p (Holtzman et al. 2020). Throws as check_logits
// does.
std::vector<Candidate> candidates(std::span<const double> logits, const SamplingOptions& options);

// Returns the candidate at `uniform`, in [0, 1), of the cumulative distribution.
std::int64_t choose(std::span<const Candidate> candidates, double uniform);

// Returns choose(candidates(logits, options), uniform), up to rounding at the boundaries between
// tokens. Sorts only as many of the most likely tokens as needed.
std::int64_t sample_token(std::span<const double> logits,
                          const SamplingOptions& options,
                          double uniform);

// Returns 53 bits of the random number at `index`, as a number in [0, 1).
double uniform_at(const Random& random, std::uint64_t index);

}  // namespace longspan
