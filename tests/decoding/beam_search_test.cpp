// Beam search against exhaustive search, and its rules on small examples.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "framework/core/error.h"
#include "tests/decoding/beam_search_testing.h"

namespace longspan::beam_search_test {
namespace {

using testing::by;
using testing::HistoryStep;
using testing::log_softmax;
using testing::logs;
using testing::never;
using testing::Tokens;
using testing::varied_logits;

constexpr std::int64_t first = 1;
constexpr std::int64_t end = 0;

BeamOptions beam_of(std::int64_t beam, std::int64_t n_best = 1, double alpha = 0) {
  return {.vocabulary = {.end = end}, .beam = beam, .n_best = n_best, .alpha = alpha};
}

std::vector<Hypothesis> search_one(const HistoryStep::Logits& logits,
                                   const BeamOptions& options,
                                   std::int64_t longest,
                                   DType dtype = DType::f64) {
  HistoryStep step(logits, {0}, dtype);
  const SearchInput input = {.first = first, .longest = longest};
  return beam_search(by(step), std::span(&input, 1), options).front();
}

// Adds every finished hypothesis, by depth-first search.
void add_all(const HistoryStep::Logits& logits,
             const BeamOptions& options,
             std::int64_t longest,
             const Tokens& tokens,
             double log_probability,
             std::vector<Hypothesis>& all) {
  Tokens read = {first};
  read.insert(read.end(), tokens.begin(), tokens.end());
  const std::vector<double> next = log_softmax(logits(0, read));
  const double ended = log_probability + next[end];
  const auto length = std::ssize(tokens) + 1;
  all.push_back({.tokens = tokens,
                 .log_probability = ended,
                 .score = ended / length_penalty(options.penalty, options.alpha, length),
                 .ended = true});
  if (std::ssize(tokens) == longest) return;
  for (std::size_t token = 1; token < next.size(); ++token) {
    Tokens more = tokens;
    more.push_back(static_cast<std::int64_t>(token));
    add_all(logits, options, longest, more, log_probability + next[token], all);
  }
}

std::vector<Hypothesis> all_hypotheses(const HistoryStep::Logits& logits,
                                       const BeamOptions& options,
                                       std::int64_t longest) {
  std::vector<Hypothesis> all;
  add_all(logits, options, longest, {}, 0, all);
  std::ranges::stable_sort(all, std::ranges::greater{}, &Hypothesis::score);
  return all;
}

void expect_best(const std::vector<Hypothesis>& found, const std::vector<Hypothesis>& expected) {
  ASSERT_LE(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].tokens, expected[i].tokens) << "place " << i;
    EXPECT_NEAR(found[i].score, expected[i].score, 1e-12);
    EXPECT_NEAR(found[i].log_probability, expected[i].log_probability, 1e-12);
    EXPECT_TRUE(found[i].ended);
  }
}

TEST(BeamSearch, FullBeamIsExhaustive) {
  for (const std::int64_t vocabulary : {2, 3, 4})
    for (const LengthPenalty penalty : {LengthPenalty::wu, LengthPenalty::power})
      for (const double alpha : {0.0, 0.6, 1.0, 2.5}) {
        BeamOptions options = beam_of(64, 10, alpha);  // 1 + 3 + 9 + 27 hypotheses at most
        options.penalty = penalty;
        const auto logits = varied_logits(vocabulary);
        const auto found = search_one(logits, options, 3);
        ASSERT_EQ(found.size(), vocabulary == 2 ? 4u : 10u);
        expect_best(found, all_hypotheses(logits, options, 3));
      }
}

TEST(BeamSearch, BeamOneEqualsGreedy) {
  for (const std::int64_t seed : {0, 1, 2, 3, 4}) {
    HistoryStep beam(varied_logits(9), {seed});
    HistoryStep greedy(varied_logits(9), {seed});
    const SearchInput input = {.index = seed, .first = first, .longest = 20};
    const auto a = beam_search(by(beam), std::span(&input, 1), beam_of(1)).front().front();
    const auto b = sample(by(greedy),
                          std::span(&input, 1),
                          {.vocabulary = {.end = end}, .sampling = {.temperature = 0}})
                       .front()
                       .front();
    EXPECT_EQ(a.tokens, b.tokens);
    if (b.ended) {
      EXPECT_NEAR(a.log_probability, b.log_probability, 1e-12);
    }
  }
}

TEST(BeamSearch, LengthPenaltiesMatchPublishedFormulas) {
  EXPECT_DOUBLE_EQ(length_penalty(LengthPenalty::wu, 1, 7), 2);
  EXPECT_DOUBLE_EQ(length_penalty(LengthPenalty::wu, 0.6, 1), 1);
  EXPECT_DOUBLE_EQ(length_penalty(LengthPenalty::power, 2, 3), 9);
  EXPECT_DOUBLE_EQ(length_penalty(LengthPenalty::power, 0, 3), 1);
  // The end has probability 0.4 at once, 0.3 * 0.9 after one token: alpha favors the longer one.
  const auto logits = [](std::int64_t, const Tokens& read) {
    return read.size() == 1 ? logs({0.4, 0.3, 0.3}) : logs({0.9, 0.05, 0.05});
  };
  EXPECT_EQ(search_one(logits, beam_of(3, 1, 0), 4).front().tokens, Tokens{});
  BeamOptions power = beam_of(3, 1, 1);
  power.penalty = LengthPenalty::power;
  const Hypothesis best = search_one(logits, power, 4).front();
  EXPECT_EQ(best.tokens, Tokens{1});
  EXPECT_NEAR(best.score, std::log(0.3 * 0.9) / 2, 1e-12);
  const Hypothesis wu = search_one(logits, beam_of(3, 1, 1), 4).front();
  EXPECT_NEAR(wu.score, std::max(std::log(0.4), std::log(0.27) / (7.0 / 6)), 1e-12);
}

TEST(BeamSearch, BreaksTiesByTokenThenByHypothesis) {
  const auto level = [](std::int64_t, const Tokens& read) {
    return read.size() <= 2 ? std::vector<double>{never, 0, 0, 0} : std::vector<double>(4, 0.0);
  };
  const auto found = search_one(level, beam_of(4, 4), 2);
  ASSERT_EQ(found.size(), 4u);
  // All of 1, 2, 3 after the first token; then 1 after each of them, and 2 after the first.
  const Tokens expected[] = {{1, 1}, {2, 1}, {3, 1}, {1, 2}};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(found[i].tokens, expected[i]) << i;
}

TEST(BeamSearch, SupportsEmptyHypotheses) {
  const auto logits = [](std::int64_t, const Tokens&) { return logs({0.98, 0.01, 0.01}); };
  const Hypothesis found = search_one(logits, beam_of(2), 50).front();
  EXPECT_EQ(found.tokens, Tokens{});
  EXPECT_NEAR(found.log_probability, std::log(0.98), 1e-12);
  // A maximum length of 0 permits only the end.
  EXPECT_EQ(search_one(varied_logits(5), beam_of(2), 0).front().tokens, Tokens{});
}

TEST(BeamSearch, EndsAtMaximumLength) {
  const auto logits = [](std::int64_t, const Tokens& read) {
    return read.size() == 6 ? logs({0.01, 0.9, 0.09}) : logs({1e-9, 0.9, 0.1 - 1e-9});
  };
  const Hypothesis found = search_one(logits, beam_of(3), 5).front();
  EXPECT_EQ(found.tokens, (Tokens{1, 1, 1, 1, 1}));
  EXPECT_NEAR(found.log_probability, 5 * std::log(0.9) + std::log(0.01), 1e-12);
  EXPECT_TRUE(found.ended);
}

TEST(BeamSearch, DoesNotChooseForbiddenOrOutOfVocabularyTokens) {
  BeamOptions options = beam_of(3, 3);
  options.vocabulary.forbidden = {2, 4};
  options.vocabulary.size = 6;
  for (const Hypothesis& found : search_one(varied_logits(9, 3), options, 6))
    for (const std::int64_t token : found.tokens) {
      EXPECT_TRUE(token == 1 || token == 3 || token == 5) << token;
    }
  // Forbidden tokens keep their probability mass; ids beyond the vocabulary have none.
  options.vocabulary.forbidden = {1, 2};
  options.vocabulary.size = 3;
  const auto logits = [](std::int64_t, const Tokens&) { return logs({1, 2, 1, 7}); };
  EXPECT_NEAR(search_one(logits, options, 3).front().log_probability, std::log(0.25), 1e-12);
}

TEST(BeamSearch, ResultsDoNotDependOnBatchOrder) {
  std::vector<SearchInput> inputs;
  for (std::int64_t i = 0; i < 12; ++i)
    inputs.push_back({.index = i, .first = first, .longest = 2 + 3 * i % 11});
  const BeamOptions options = beam_of(4, 3, 0.8);
  std::map<std::int64_t, std::vector<Hypothesis>> alone;
  for (const SearchInput& input : inputs) {
    HistoryStep step(varied_logits(30, 2), {input.index});
    alone[input.index] = beam_search(by(step), std::span(&input, 1), options).front();
  }
  for (int turn = 0; turn < 3; ++turn) {
    std::ranges::rotate(inputs, inputs.begin() + 5);
    if (turn == 1) std::ranges::reverse(inputs);
    Tokens indices;
    for (const SearchInput& input : inputs) indices.push_back(input.index);
    HistoryStep step(varied_logits(30, 2), indices);
    const auto found = beam_search(by(step), inputs, options);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto& expected = alone[inputs[i].index];
      ASSERT_EQ(found[i].size(), expected.size());
      for (std::size_t n = 0; n < expected.size(); ++n) {
        EXPECT_EQ(found[i][n].tokens, expected[n].tokens);
        EXPECT_EQ(found[i][n].score, expected[n].score);
      }
    }
    // The first step reads each input once. Finished inputs are absent from the last one.
    EXPECT_EQ(step.batches.front(), inputs.size());
    EXPECT_LE(step.batches[1], 4 * inputs.size());
    EXPECT_LE(step.batches.back(), 3u * 4);
  }
}

TEST(BeamSearch, Float32MatchesFloat64ForLargeVocabularies) {
  const auto logits = varied_logits(4000, 3);
  const BeamOptions options = beam_of(5, 5);
  const auto wide = search_one(logits, options, 6);
  const auto narrow = search_one(logits, options, 6, DType::f32);
  ASSERT_EQ(wide.size(), narrow.size());
  for (std::size_t i = 0; i < wide.size(); ++i) {
    EXPECT_EQ(wide[i].tokens, narrow[i].tokens);
    EXPECT_NEAR(wide[i].score, narrow[i].score, 1e-5);
  }
}

// One rank uses logits in the compute dtype; several ranks gather them in float64.
TEST(BeamSearch, EqualLogitsInFloat32AndFloat64GiveEqualBits) {
  const HistoryStep::Logits logits = [](std::int64_t input, const Tokens& read) {
    std::vector<double> result = varied_logits(333)(input, read);
    for (double& logit : result) logit = static_cast<float>(logit);
    return result;
  };
  const auto narrow = search_one(logits, beam_of(4, 4, 0.6), 8, DType::f32);
  const auto wide = search_one(logits, beam_of(4, 4, 0.6), 8, DType::f64);
  ASSERT_EQ(narrow.size(), 4u);
  for (std::size_t i = 0; i < wide.size(); ++i) {
    EXPECT_EQ(narrow[i].tokens, wide[i].tokens);
    EXPECT_EQ(narrow[i].log_probability, wide[i].log_probability);
  }
}

// The search for the best tokens reads blocks.
TEST(BeamSearch, FindsBestTokenAtAnyPosition) {
  for (const std::size_t place : {63u, 64u, 127u, 128u, 191u, 199u}) {
    std::vector<double> row(200, -3);
    row[0] = 0;
    row[place] = 1;
    for (const DType dtype : {DType::f32, DType::f64}) {
      const auto found =
          search_one([&](std::int64_t, const Tokens&) { return row; }, beam_of(1), 2, dtype);
      const auto token = static_cast<std::int64_t>(place);
      EXPECT_EQ(found.front().tokens, (Tokens{token, token})) << place;
    }
  }
}

std::string failure_of(const std::vector<double>& logits) {
  try {
    search_one([&](std::int64_t, const Tokens&) { return logits; }, beam_of(2), 3);
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

TEST(BeamSearch, RejectsNonFiniteLogits) {
  EXPECT_EQ(failure_of({0, 1, std::nan("")}), "input 0: the logit of token 2 is NaN");
  std::vector<double> many(200, 0);
  many[150] = std::nan("");
  EXPECT_EQ(failure_of(many), "input 0: the logit of token 150 is NaN");
  EXPECT_NE(failure_of({0, -never, 1}).find("input 0: the logit of token 1 is +infinity"),
            std::string::npos);
  EXPECT_EQ(failure_of({never, never, never}), "input 0: all 3 logits are -infinity");
  EXPECT_EQ(failure_of({never, 0, 1}), "input 0: no finished hypothesis");
  EXPECT_EQ(failure_of({0, never, never}), "");
}

TEST(BeamSearch, RejectsInvalidOptions) {
  const auto refused = [](const BeamOptions& options) {
    EXPECT_NE(problem_of(options), "");
    EXPECT_THROW(search_one(varied_logits(4), options, 3), ConfigurationError);
  };
  refused(beam_of(0));
  refused(beam_of(2, 3));
  refused(beam_of(2, 0));
  refused(beam_of(2, 1, std::nan("")));
  refused({.vocabulary = {}});
  refused({.vocabulary = {.end = 0, .forbidden = {0}}});
}

}  // namespace
}  // namespace longspan::beam_search_test
