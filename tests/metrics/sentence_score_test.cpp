// Scores of sentences. The golden file has more cases of sentence BLEU.
#include "framework/metrics/sentence_score.h"

#include <gtest/gtest.h>

#include <cmath>

#include "framework/core/error.h"

namespace longspan::sentence_score_test {
namespace {

TEST(SentenceBleu, SmoothsOrdersAboveOne) {
  // Matches 4, 2, 1, 0 of 5, 4, 3, 2 n-grams; the reference is one word longer.
  const double expected =
      std::exp(1 - 6.0 / 5) * std::pow(4.0 / 5 * (3.0 / 5) * (2.0 / 4) * (1.0 / 3), 1.0 / 4);
  EXPECT_NEAR(sentence_score(SentenceMetric::bleu, "a b c x d", "a b c d e f"), expected, 1e-15);
}

TEST(SentenceBleu, TreatsMissingOrdersAsOne) {
  EXPECT_NEAR(sentence_score(SentenceMetric::bleu, "a", "a b c d"), std::exp(-3.0), 1e-15);
  EXPECT_EQ(sentence_score(SentenceMetric::bleu, "", "a b"), 0);
  EXPECT_EQ(sentence_score(SentenceMetric::bleu, "x", "a b"), 0);
  EXPECT_EQ(sentence_score(SentenceMetric::bleu, "a b c d e", "a b c d e"), 1);
}

TEST(SentenceBleu, CountsWordsOfItsTokenizer) {
  EXPECT_EQ(sentence_score(SentenceMetric::bleu, "a b.", "a b ."), 1);
  EXPECT_LT(sentence_score(SentenceMetric::bleu, "a b.", "a b .", BleuTokens::white_space), 1);
  EXPECT_EQ(sentence_score(SentenceMetric::bleu, "ab c", "a bc", BleuTokens::characters), 1);
}

TEST(SentenceScore, MatchesEachMetric) {
  EXPECT_DOUBLE_EQ(sentence_score(SentenceMetric::error_rate, "AH B K", "AH B D IY"), 0.5);
  EXPECT_DOUBLE_EQ(sentence_score(SentenceMetric::error_rate, "a b c", "x"), -2);
  EXPECT_EQ(sentence_score(SentenceMetric::exact_match, "a b", "a b"), 1);
  EXPECT_EQ(sentence_score(SentenceMetric::exact_match, "a  b", "a b"), 0);
  ChrfSums sums;
  const std::string reference[] = {"a cat"};
  sums.add("a car", reference);
  EXPECT_EQ(sentence_score(SentenceMetric::chrf, "a car", "a cat"), sums.score() / 100);
}

TEST(SentenceScore, ComparesTokens) {
  const std::int64_t hypothesis[] = {5, 7, 900000, 3}, reference[] = {5, 900000, 3};
  EXPECT_DOUBLE_EQ(sentence_score(SentenceMetric::error_rate, hypothesis, reference), 2.0 / 3);
  EXPECT_EQ(sentence_score(SentenceMetric::exact_match, reference, reference), 1);
  EXPECT_EQ(sentence_score(SentenceMetric::exact_match, hypothesis, reference), 0);
  EXPECT_EQ(sentence_score(SentenceMetric::bleu, reference, reference), 1);
  EXPECT_EQ(sentence_score(SentenceMetric::bleu, hypothesis, reference),
            sentence_score(SentenceMetric::bleu, "5 7 900000 3", "5 900000 3"));
  EXPECT_THROW(sentence_score(SentenceMetric::chrf, hypothesis, reference), Failure);
}

}  // namespace
}  // namespace longspan::sentence_score_test
