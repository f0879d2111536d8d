// One token from logits: temperature, top-k, top-p, and the draw.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/random.h"

namespace longspan {

struct SamplingOptions {
  double temperature = 1;  // logits are divided by it; 0: always the likeliest token
  std::int64_t top_k = 0;  // only the k likeliest tokens; 0: all
  double top_p = 1;        // only the fewest of these whose probabilities sum to at least it
};

// Throws ConfigurationError for options out of range.
void check_sampling(const SamplingOptions& options);

// Logits of which no token can be drawn: those of weights that have become too large, or are no
// numbers.
class InvalidLogits : public Failure {
 public:
  using Failure::Failure;
};

// Throws InvalidLogits for a logit that is not a number or infinite, and where all are -infinity.
// One of -infinity forbids its token.
void check_logits(std::span<const double> logits);

struct Candidate {
  std::int64_t token = 0;
  double probability = 0;
};

// The tokens that may follow, the likeliest first (of equals the lower id), with probabilities that
// sum to 1: temperature, then top-k, then top-p (Holtzman et al. 2020). Throws as check_logits.
std::vector<Candidate> candidates(std::span<const double> logits, const SamplingOptions& options);

// The candidate at `uniform` of [0, 1) in their cumulated probabilities.
std::int64_t choose(std::span<const Candidate> candidates, double uniform);

// choose(candidates(logits, options), uniform), to rounding at the borders between tokens, without
// sorting more than the likeliest tokens that it takes to get there.
std::int64_t sample_token(std::span<const double> logits,
                          const SamplingOptions& options,
                          double uniform);

// 53 bits of the numbers at `index`, as a number of [0, 1).
double uniform_at(const Random& random, std::uint64_t index);

}  // namespace longspan
