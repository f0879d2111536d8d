// Sequence-level training: candidate outputs of each pair, sampled from the model and scored by a
// metric (Shen et al. 2016, Rennie et al. 2017).
#pragma once

#include <cstdint>
#include <string>

#include "framework/metrics/sentence_score.h"

namespace longspan {

class OptionTable;

enum class SequenceLevelMethod : std::uint8_t {
  none,
  minimum_risk,   // expected cost over the distinct candidates (Shen et al. 2016)
  self_critical,  // REINFORCE, baseline: reward of the greedy output (Rennie et al. 2017)
  leave_one_out   // REINFORCE, baseline: mean reward of the other candidates
};

// Units that a metric compares.
enum class SentenceUnit : std::uint8_t { words, tokens };

// Divisor of the REINFORCE losses, over all ranks.
enum class SequenceNormalizer : std::uint8_t { tokens, sequences };

struct SequenceLevelOptions {
  SequenceLevelMethod method = SequenceLevelMethod::none;
  std::int64_t candidates = 16;    // per pair
  double temperature = 1;          // divides the logits; 1 unless method is minimum_risk
  double alpha = 5e-3;             // sharpness of the distribution over candidates
  bool normalizes_length = false;  // log-probabilities are divided by the number of tokens
  bool with_reference = false;     // the reference replaces the last candidate
  SentenceMetric metric = SentenceMetric::bleu;
  SentenceUnit unit = SentenceUnit::words;
  SequenceNormalizer normalizer = SequenceNormalizer::tokens;
  double cross_entropy_weight = 0;
  std::int64_t extra_length = 10;  // of a candidate beyond the reference, in tokens

  bool is_used() const { return method != SequenceLevelMethod::none; }
  // Rows of a batch for each pair: the candidates, then the reference if its loss counts.
  std::int64_t rows_per_pair() const { return candidates + (cross_entropy_weight > 0 ? 1 : 0); }
};

// Returns why the options are invalid; empty if they are valid.
std::string problem_of(const SequenceLevelOptions& options);

void declare(OptionTable& table, SequenceLevelOptions& options);

}  // namespace longspan
