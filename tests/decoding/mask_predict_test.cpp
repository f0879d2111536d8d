#include "framework/decoding/mask_predict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/core/error.h"
#include "tests/data/temporary_file.h"

namespace longspan::mask_predict_test {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t end = 5, mask = 6;

struct Word {
  std::int64_t id;
  double log_probability;
};

// A fake model: `word` returns the token at a position of a row.
struct Model {
  std::function<Word(const MaskPredictRow& row, std::size_t place)> word;
  std::vector<std::vector<MaskPredictRow>> calls = {};

  ArgmaxTokens operator()(std::span<const MaskPredictRow> rows) {
    calls.emplace_back(rows.begin(), rows.end());
    std::size_t longest = 0;
    for (const MaskPredictRow& row : rows) longest = std::max(longest, row.tokens.size());
    std::vector<std::int64_t> ids;
    std::vector<double> log_probabilities;
    for (const MaskPredictRow& row : rows)
      for (std::size_t place = 0; place < longest; ++place) {
        EXPECT_EQ(row.tokens.back(), end);
        // Outputs at the end token and at padding must not be used.
        const bool is_word = place + 1 < row.tokens.size();
        const Word here = is_word ? word(row, place) : Word{99, std::nan("")};
        ids.push_back(here.id);
        log_probabilities.push_back(here.log_probability);
      }
    const Shape shape = {std::ssize(rows), static_cast<std::int64_t>(longest)};
    return {Tensor::from<std::int64_t>(ids, shape, Device::cpu()),
            Tensor::from<double>(log_probabilities, shape, Device::cpu())};
  }
};

MaskPredictOptions with(std::int64_t iterations, std::int64_t n_best = 1) {
  return {.end = end, .mask = mask, .iterations = iterations, .n_best = n_best};
}

std::vector<std::vector<Hypothesis>> run(Model& model,
                                         const std::vector<std::vector<std::int64_t>>& lengths,
                                         const MaskPredictOptions& options) {
  std::vector<MaskPredictInput> inputs;
  for (const auto& of_input : lengths)
    inputs.push_back({.index = 10 + std::ssize(inputs), .lengths = of_input});
  return mask_predict([&](auto rows) { return model(rows); }, inputs, options);
}

std::vector<std::int64_t> counts(std::int64_t words, std::int64_t iterations) {
  std::vector<std::int64_t> result;
  for (std::int64_t c = 0; c < iterations; ++c)
    result.push_back(masked_count(words, iterations, c));
  return result;
}

TEST(MaskPredict, MaskedCountDecreasesLinearly) {
  EXPECT_THAT(counts(10, 4), ElementsAre(10, 7, 5, 2));
  EXPECT_THAT(counts(10, 10), ElementsAre(10, 9, 8, 7, 6, 5, 4, 3, 2, 1));
  EXPECT_THAT(counts(1, 4), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(counts(3, 1), ElementsAre(3));
}

TEST(MaskPredict, CandidateLengthsSurroundPrediction) {
  EXPECT_THAT(candidate_lengths(7, 1), ElementsAre(7));
  EXPECT_THAT(candidate_lengths(7, 5), ElementsAre(5, 6, 7, 8, 9));
  EXPECT_THAT(candidate_lengths(2, 4), ElementsAre(1, 2, 3));
  EXPECT_THAT(candidate_lengths(7, 5, 8), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(candidate_lengths(300, 3, 8), ElementsAre(8));
}

TEST(MaskPredict, PositionOnlyModelReachesFixedPoint) {
  Model model = {[](const MaskPredictRow&, std::size_t place) {
    return Word{static_cast<std::int64_t>(place) % 4, -0.1 * static_cast<double>(place)};
  }};
  const auto once = run(model, {{6}}, with(1)), often = run(model, {{6}}, with(4));
  EXPECT_THAT(once[0][0].tokens, ElementsAre(0, 1, 2, 3, 0, 1));
  EXPECT_NEAR(once[0][0].score, -0.25, 1e-15);
  EXPECT_NEAR(once[0][0].log_probability, -1.5, 1e-15);
  EXPECT_EQ(often[0][0].tokens, once[0][0].tokens);
  EXPECT_EQ(often[0][0].score, once[0][0].score);
  EXPECT_EQ(model.calls.size(), 5u);
}

// Ties re-mask the earlier token. The other tokens keep their id and score.
TEST(MaskPredict, RemasksLeastProbableTokens) {
  Model model = {[](const MaskPredictRow& row, std::size_t place) {
    const bool is_first = std::ranges::count(row.tokens, mask) == 4;
    const double sure[] = {-3, -1, -3, -3};
    return is_first ? Word{0, sure[place]} : Word{1, -0.5};
  }};
  const auto found = run(model, {{4}}, with(2));
  ASSERT_EQ(model.calls.size(), 2u);
  EXPECT_THAT(model.calls[0][0].tokens, ElementsAre(mask, mask, mask, mask, end));
  EXPECT_THAT(model.calls[1][0].tokens, ElementsAre(mask, 0, mask, 0, end));
  EXPECT_THAT(found[0][0].tokens, ElementsAre(1, 0, 1, 0));
  EXPECT_NEAR(found[0][0].score, (-0.5 - 1 - 0.5 - 3) / 4, 1e-15);
}

// A row of one token is finished after the first iteration.
TEST(MaskPredict, DoesNotReadFinishedRows) {
  Model model = {[](const MaskPredictRow&, std::size_t) { return Word{2, -1}; }};
  run(model, {{1, 8}}, with(4));
  ASSERT_EQ(model.calls.size(), 4u);
  EXPECT_EQ(model.calls[0].size(), 2u);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(model.calls[i].size(), 1u);
}

TEST(MaskPredict, OrdersLengthsByMeanLogProbability) {
  Model model = {[](const MaskPredictRow& row, std::size_t) {
    return Word{row.of, row.tokens.size() == 4 ? -0.1 : -1.0};
  }};
  const auto found = run(model, {{2, 3, 4}, {1}}, with(3, 2));
  ASSERT_EQ(found[0].size(), 2u);
  EXPECT_THAT(found[0][0].tokens, ElementsAre(0, 0, 0));
  EXPECT_THAT(found[0][1].tokens, ElementsAre(0, 0));  // ties keep the earlier length
  EXPECT_THAT(found[1][0].tokens, ElementsAre(1));
}

// Each iteration reads and predicts all tokens. The last one changes none, or reaches the limit.
TEST(MaskPredict, RefinementReadsPreviousOutput) {
  Model model = {[](const MaskPredictRow& row, std::size_t place) {
    const std::int64_t most = row.tokens.size() == 3 ? 2 : 4;
    return Word{std::min(row.tokens[place] + 1, most), -1};
  }};
  MaskPredictOptions options = with(10, 2);
  options.remask = false;
  options.first = [](std::int64_t of, std::int64_t n) {
    return std::vector<std::int64_t>(static_cast<std::size_t>(n), of);
  };
  const auto found = run(model, {{2, 3}}, options);
  EXPECT_THAT(found[0][0].tokens, ElementsAre(2, 2));
  EXPECT_THAT(found[0][1].tokens, ElementsAre(4, 4, 4));
  ASSERT_EQ(model.calls.size(), 5u);  // the last one changes nothing
  EXPECT_THAT(model.calls[0][0].tokens, ElementsAre(0, 0, end));
  EXPECT_THAT(model.calls[2][1].tokens, ElementsAre(2, 2, 2, end));
  EXPECT_EQ(model.calls[3].size(), 1u);
  options.iterations = 2;
  EXPECT_THAT(run(model, {{3}}, options)[0][0].tokens, ElementsAre(2, 2, 2));
}

TEST(MaskPredict, RejectsNaNLogitsAndZeroIterations) {
  Model model = {[](const MaskPredictRow& row, std::size_t place) {
    return Word{0, row.of == 1 && place == 1 ? std::nan("") : -1};
  }};
  EXPECT_EQ(message_of<Failure>([&] {
              run(model, {{2}, {2}}, with(1));
            }),
            "input 11: the logits of token 1 are NaN");
  EXPECT_EQ(message_of<ConfigurationError>([&] { run(model, {{2}}, with(0)); }),
            "iterations: expected at least 1, found 0");
}

}  // namespace
}  // namespace longspan::mask_predict_test
