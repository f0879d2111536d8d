// BLEU and chrF against sacreBLEU. The golden file has more cases of BLEU.
#include "framework/metrics/bleu.h"

#include <gtest/gtest.h>

#include <cmath>

#include "framework/core/error.h"
#include "framework/metrics/sums.h"
#include "framework/metrics/text.h"
#include "tests/metrics/sacrebleu_cases.h"

namespace longspan::bleu_test {
namespace {

using testing::sacrebleu_cases;
using testing::sacrebleu_corpus;
using testing::SacreBleuScores;

constexpr double tolerance = 1e-11;

struct Sums {
  BleuSums bleu;
  BleuSums of_words;
  BleuSums of_characters;
  BleuSums of_chinese;
  ChrfSums chrf{0};
  ChrfSums chrf_words{2};

  void add(const std::string& hypothesis, const std::vector<std::string>& references) {
    bleu.add(hypothesis, references);
    of_words.add(hypothesis, references, BleuTokens::white_space);
    of_characters.add(hypothesis, references, BleuTokens::characters);
    of_chinese.add(hypothesis, references, BleuTokens::chinese);
    chrf.add(hypothesis, references);
    chrf_words.add(hypothesis, references);
  }
};

void expect_scores(const Sums& sums, const SacreBleuScores& expected) {
  std::vector<std::int64_t> counts;
  BleuSums::each_sum(sums.bleu, [&](std::int64_t count) { counts.push_back(count); });
  EXPECT_EQ(counts, std::vector(expected.counts.begin(), expected.counts.end()));
  const double found[] = {
      bleu(sums.bleu).score,
      bleu(sums.bleu, {.effective_order = true}).score,
      bleu(sums.bleu, {.smoothing = BleuSmoothing::floor, .effective_order = true}).score,
      bleu(sums.bleu, {.smoothing = BleuSmoothing::add_k}).score,
      bleu(sums.bleu, {.smoothing = BleuSmoothing::none, .effective_order = true}).score,
      bleu(sums.of_words).score,
      bleu(sums.of_characters).score,
      bleu(sums.of_chinese).score};
  for (std::size_t i = 0; i < std::size(found); ++i)
    EXPECT_NEAR(found[i], expected.bleu[i], tolerance) << "score " << i;
  EXPECT_NEAR(sums.chrf.score(), expected.chrf[0], tolerance);
  EXPECT_NEAR(sums.chrf_words.score(), expected.chrf[1], tolerance);
}

TEST(Bleu, Tokenize13aMatchesSacreBleu) {
  for (const auto& one : sacrebleu_cases())
    EXPECT_EQ(tokenize_13a(one.hypothesis), one.tokens) << one.hypothesis;
}

TEST(Bleu, TokenizeChineseMatchesSacreBleu) {
  for (const auto& one : sacrebleu_cases())
    EXPECT_EQ(tokenize_zh(one.hypothesis), one.chinese) << one.hypothesis;
}

TEST(Bleu, MatchesSacreBleuCountsAndScoresPerCase) {
  for (const auto& one : sacrebleu_cases()) {
    SCOPED_TRACE(one.hypothesis);
    Sums sums;
    sums.add(one.hypothesis, one.references);
    expect_scores(sums, one.scores);
  }
}

// Three parts, as the sums of three ranks.
TEST(Bleu, SumsOfPartsMatchSacreBleuCorpusScores) {
  std::vector<Sums> parts(3);
  std::size_t next = 0;
  for (const auto& one : sacrebleu_cases()) parts[next++ % 3].add(one.hypothesis, one.references);
  std::vector<double> totals;
  for (const Sums& part : parts) {
    std::vector<double> sums;
    append_sums(part.bleu, sums);
    append_sums(part.of_words, sums);
    append_sums(part.of_characters, sums);
    append_sums(part.of_chinese, sums);
    append_sums(part.chrf, sums);
    append_sums(part.chrf_words, sums);
    totals.resize(sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i) totals[i] += sums[i];
  }
  Sums whole;
  std::span<const double> rest = consume_sums(whole.bleu, totals);
  rest = consume_sums(whole.of_words, rest);
  rest = consume_sums(whole.of_characters, rest);
  rest = consume_sums(whole.of_chinese, rest);
  rest = consume_sums(whole.chrf, rest);
  rest = consume_sums(whole.chrf_words, rest);
  EXPECT_TRUE(rest.empty());
  expect_scores(whole, sacrebleu_corpus());
  EXPECT_THROW(consume_sums(whole.bleu, rest), Failure);
}

TEST(Bleu, MetricValuesHaveNamesAndUnits) {
  Sums sums;
  sums.add("a cat sat here", std::vector<std::string>{"a cat sat here now"});
  const std::vector<MetricValue> found = metric_values(sums.bleu);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0], (MetricValue{"bleu", bleu(sums.bleu).score, "percent"}));
  EXPECT_EQ(found[1].name, "bleu_brevity_penalty");
  EXPECT_NEAR(found[1].value, std::exp(-0.25), 1e-15);
  EXPECT_EQ(metric_values(sums.chrf)[0].name, "chrf");
  EXPECT_EQ(metric_values(sums.chrf_words)[0].name, "chrf++");
}

// An exact match without spaces is one 13a token and has no 4-gram.
TEST(Bleu, CharacterTokensScoreTextWithoutSpaces) {
  const std::string text = "\u6211\u4eec\u53bb\u5317\u4eac\u3002";
  for (const auto& [tokens, expected] : {std::pair(BleuTokens::thirteen_a, 0.),
                                         std::pair(BleuTokens::white_space, 0.),
                                         std::pair(BleuTokens::characters, 100.),
                                         std::pair(BleuTokens::chinese, 100.)}) {
    BleuSums sums;
    sums.add(text, std::vector<std::string>{text}, tokens);
    EXPECT_NEAR(bleu(sums).score, expected, 1e-9) << name_of(tokens);
  }
}

TEST(Bleu, RejectsMissingReferences) {
  BleuSums words;
  ChrfSums letters;
  EXPECT_THROW(words.add("x", {}), Failure);
  EXPECT_THROW(letters.add("x", {}), Failure);
}

// All characters for which Python's str.isspace() is true.
TEST(IsSpace, MatchesPython) {
  std::vector<std::uint32_t> found;
  for (char32_t code_point = 0; code_point < 0x110000; ++code_point)
    if (is_space(code_point)) found.push_back(code_point);
  EXPECT_EQ(found,
            (std::vector<std::uint32_t>{
                0x09,   0x0A,   0x0B,   0x0C,   0x0D,   0x1C,   0x1D,   0x1E,   0x1F,   0x20,
                0x85,   0xA0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006,
                0x2007, 0x2008, 0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}));
}

}  // namespace
}  // namespace longspan::bleu_test
