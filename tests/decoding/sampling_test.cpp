// Draws of one token, and samples for many inputs.
#include "framework/decoding/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "framework/core/error.h"
#include "tests/decoding/beam_search_testing.h"

namespace longspan::sampling_test {
namespace {

using testing::by;
using testing::HistoryStep;
using testing::logs;
using testing::never;
using testing::Tokens;
using testing::varied_logits;

TEST(SampleToken, MatchesChoiceFromCandidates) {
  for (const SamplingOptions& options :
       std::vector<SamplingOptions>{{},
                                    {.temperature = 0},
                                    {.temperature = 0.3},
                                    {.temperature = 3},
                                    {.top_k = 7},
                                    {.top_p = 0.8},
                                    {.temperature = 2, .top_p = 0.99},
                                    {.top_k = 40, .top_p = 0.5}})
    for (std::int64_t input = 0; input < 3; ++input) {
      std::vector<double> logits = varied_logits(700)(input, {1});
      logits[5] = logits[6] = logits[300];  // ties too
      logits[9] = never;
      const auto list = candidates(logits, options);
      for (int i = 0; i < 200; ++i) {
        const double uniform = (i + 0.37) / 200;
        EXPECT_EQ(sample_token(logits, options, uniform), choose(list, uniform));
      }
    }
}

TEST(SampleToken, DoesNotChooseImpossibleTokens) {
  const std::vector<double> logits = {never, 0, never, 0, never};
  EXPECT_EQ(sample_token(logits, {}, 0), 1);
  EXPECT_EQ(sample_token(logits, {}, 0x1.fffffffffffffp-1), 3);
  EXPECT_EQ(sample_token(logits, {.top_p = 0.6}, 0x1.fffffffffffffp-1), 3);
}

TEST(SampleToken, RejectsNonFiniteLogits) {
  for (const SamplingOptions& options :
       std::vector<SamplingOptions>{{}, {.temperature = 0}, {.top_k = 1}, {.top_p = 0.5}})
    for (const std::vector<double>& logits : std::vector<std::vector<double>>{
             {0, std::nan("")}, {-never, 0}, {-never, -never}, {never, never}}) {
      EXPECT_THROW(sample_token(logits, options, 0.5), InvalidLogits);
      EXPECT_THROW(candidates(logits, options), InvalidLogits);
    }
}

std::vector<Hypothesis> flattened(const std::vector<std::vector<Hypothesis>>& all) {
  std::vector<Hypothesis> result;
  for (const auto& of_input : all) result.insert(result.end(), of_input.begin(), of_input.end());
  return result;
}

TEST(Sample, DependsOnlyOnSeedInputAndSample) {
  std::vector<SearchInput> inputs;
  for (std::int64_t i = 0; i < 7; ++i)
    inputs.push_back({.index = i, .first = 1, .longest = 3 + 2 * i});
  const SampleOptions options = {.vocabulary = {.end = 0}, .samples = 3, .seed = 5};
  HistoryStep together(varied_logits(12), {0, 1, 2, 3, 4, 5, 6});
  const auto found = sample(by(together), inputs, options);
  EXPECT_EQ(together.batches.front(), 7u);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    HistoryStep alone(varied_logits(12), {inputs[i].index});
    SampleOptions fewer = options;
    fewer.samples = 2;
    const auto again = sample(by(alone), std::span(&inputs[i], 1), fewer).front();
    for (std::size_t s = 0; s < 2; ++s) {
      EXPECT_EQ(again[s].tokens, found[i][s].tokens);
      EXPECT_EQ(again[s].log_probability, found[i][s].log_probability);
    }
    EXPECT_NE(found[i][0].tokens, found[i][1].tokens);
  }
  HistoryStep other(varied_logits(12), {0, 1, 2, 3, 4, 5, 6});
  SampleOptions another_seed = options;
  another_seed.seed = 6;
  const auto others = flattened(sample(by(other), inputs, another_seed));
  int same = 0;
  const auto all = flattened(found);
  for (std::size_t i = 0; i < all.size(); ++i) same += all[i].tokens == others[i].tokens;
  EXPECT_LT(same, 4);
}

TEST(Sample, StopsAtEndTokenOrMaximumLength) {
  const auto ends_third = [](std::int64_t, const Tokens& read) {
    return read.size() == 3 ? std::vector<double>{0, never, never}
                            : std::vector<double>{never, 0, 1};
  };
  for (const std::int64_t longest : {0, 1, 2, 3, 9}) {
    HistoryStep step(ends_third, {0});
    const SearchInput input = {.first = 1, .longest = longest};
    const auto found = sample(by(step), std::span(&input, 1), {.vocabulary = {.end = 0}});
    EXPECT_EQ(std::ssize(found[0][0].tokens), std::min<std::int64_t>(longest, 2));
    EXPECT_EQ(found[0][0].ended, longest > 2);
  }
}

TEST(Sample, FollowsDistributionAndReportsProbability) {
  const auto level = [](std::int64_t, const Tokens&) { return logs({0.1, 0.2, 0.7}); };
  HistoryStep step(level, {0});
  const SearchInput input = {.first = 1, .longest = 1};
  const auto found = sample(by(step), std::span(&input, 1), {.samples = 4000}).front();
  std::vector<double> counts(3);
  const std::vector<double> probabilities = {0.1, 0.2, 0.7};
  for (const Hypothesis& one : found) {
    const auto token = static_cast<std::size_t>(one.tokens.front());
    counts[token] += 1.0 / 4000;
    EXPECT_NEAR(one.log_probability, std::log(probabilities[token]), 1e-12);
  }
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(counts[i], probabilities[i], 0.03);
}

TEST(Sample, DoesNotDrawForbiddenTokens) {
  HistoryStep step(varied_logits(5), {0});
  const SearchInput input = {.first = 1, .longest = 300};
  const auto found =
      sample(by(step), std::span(&input, 1), {.vocabulary = {.size = 4, .forbidden = {0, 2}}});
  for (const std::int64_t token : found[0][0].tokens) EXPECT_TRUE(token == 1 || token == 3);
}

TEST(Sample, NamesInputWithNaNLogits) {
  const auto broken = [](std::int64_t input, const Tokens&) {
    return std::vector<double>{0, input == 8 ? std::nan("") : 1};
  };
  HistoryStep step(broken, {3, 8});
  const std::vector<SearchInput> inputs = {{.index = 3, .longest = 2}, {.index = 8, .longest = 2}};
  try {
    sample(by(step), inputs, {});
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(), "input 8: the logit of token 1 is NaN");
  }
}

}  // namespace
}  // namespace longspan::sampling_test
