// Scores of single sentences, as rewards of sequence-level training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "framework/metrics/bleu.h"

namespace longspan {

// Returns the smoothed BLEU of one sentence, 0 to 1 (Lin and Och 2004, as in nematus):
//   min(1, exp(1 - reference length / hypothesis length)) (p_1 ... p_orders)^(1 / orders),
// with p_1 = matches / n-grams and p_k = (matches + 1) / (n-grams + 1) for k > 1, which is 1 for a
// hypothesis of less than k items. 0 for an empty hypothesis. Items are indices of words or tokens.
// Other kinds of sentence BLEU give other values (BleuOptions::effective_order).
double sentence_bleu(std::span<const std::uint32_t> hypothesis,
                     std::span<const std::uint32_t> reference,
                     std::size_t orders = BleuSums::orders);

// Measure of one sentence.
enum class SentenceMetric : std::uint8_t { bleu, chrf, error_rate, exact_match };

// Returns the score of a hypothesis, at most 1: sentence_bleu; chrF / 100; 1 - edits / reference
// words, which may be negative; or 1 for an exact match and else 0. Words are those of `tokens` for
// BLEU, and separated by white space for the error rate.
double sentence_score(SentenceMetric metric,
                      std::string_view hypothesis,
                      std::string_view reference,
                      BleuTokens tokens = BleuTokens::thirteen_a);

// As above, with token ids instead of words. Throws Failure for chrF, which requires text.
double sentence_score(SentenceMetric metric,
                      std::span<const std::int64_t> hypothesis,
                      std::span<const std::int64_t> reference);

}  // namespace longspan
