// Error rates against an exhaustive search, exact match and likelihood.
#include "framework/metrics/error_rate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "framework/core/error.h"
#include "framework/metrics/sums.h"

namespace longspan::error_rate_test {
namespace {

using Tokens = std::vector<std::string_view>;

// Exhaustive search over alignments: fewest edits, then most correct tokens.
Edits searched(const Tokens& from, const Tokens& to, std::size_t i = 0, std::size_t j = 0) {
  if (i == from.size() && j == to.size()) return {};
  std::vector<Edits> ways;
  if (i < from.size() && j < to.size()) {
    Edits way = searched(from, to, i + 1, j + 1);
    ++(from[i] == to[j] ? way.correct : way.substitutions);
    ways.push_back(way);
  }
  if (i < from.size()) {
    ways.push_back(searched(from, to, i + 1, j));
    ++ways.back().deletions;
  }
  if (j < to.size()) {
    ways.push_back(searched(from, to, i, j + 1));
    ++ways.back().insertions;
  }
  return *std::ranges::min_element(ways, [](const Edits& a, const Edits& b) {
    return std::pair(a.count(), -a.correct) < std::pair(b.count(), -b.correct);
  });
}

TEST(ErrorRate, EditsMatchExhaustiveSearch) {
  std::mt19937 random(3);
  const Tokens words = {"a", "b", "c"};
  for (int round = 0; round < 300; ++round) {
    Tokens from, to;
    for (Tokens* const side : {&from, &to})
      for (std::size_t count = random() % 7; count > 0; --count)
        side->push_back(words[random() % words.size()]);
    const Edits found = edits_between(from, to), expected = searched(from, to);
    EXPECT_EQ(found.substitutions, expected.substitutions);
    EXPECT_EQ(found.deletions, expected.deletions);
    EXPECT_EQ(found.insertions, expected.insertions);
    EXPECT_EQ(found.correct, expected.correct);
  }
}

TEST(ErrorRate, CountsWhitespaceSeparatedTokens) {
  ErrorRate errors;
  errors.add("the cat  sat\ton mats", std::vector<std::string>{"the cat sat on the mat"});
  errors.add("yes", std::vector<std::string>{"yes"});
  // The second pronunciation needs one edit, the others more.
  errors.add("T AH M EY T OW",
             std::vector<std::string>{"T AA M AA T OW", "T AH M AA T OW", "T AH M AA T AH"});
  EXPECT_EQ(errors.substitutions, 2);
  EXPECT_EQ(errors.deletions, 1);
  EXPECT_EQ(errors.insertions, 0);
  EXPECT_EQ(errors.reference_tokens, 13);
  const std::vector<MetricValue> found = metric_values(errors, "phoneme");
  ASSERT_EQ(found.size(), 5u);
  EXPECT_EQ(found[0].name, "phoneme_error_rate");
  EXPECT_NEAR(found[0].value, 300. / 13, 1e-12);
  EXPECT_EQ(found[1], (MetricValue{"phoneme_substitutions", 2, "tokens"}));
  EXPECT_EQ(found[4].name, "sequence_error_rate");
  EXPECT_NEAR(found[4].value, 200. / 3, 1e-12);
  EXPECT_THROW(errors.add("x", std::span<const std::string>()), Failure);
}

TEST(ErrorRate, CountsInsertionsForEmptyReference) {
  ErrorRate errors;
  EXPECT_EQ(errors.rate(), 0);
  errors.add("a b", std::vector<std::string>{""});
  EXPECT_EQ(errors.insertions, 2);
  EXPECT_EQ(errors.rate(), 200);
}

TEST(ExactMatch, RequiresOneByteEqualReference) {
  ExactMatch match;
  const std::vector<std::string> references = {"one", "two "};
  for (const char* const answer : {"one", "two", "two ", "One"}) match.add(answer, references);
  EXPECT_EQ(metric_values(match), (std::vector<MetricValue>{{"exact_match", 50, "percent"}}));
  std::vector<double> sums;
  append_sums(match, sums);
  EXPECT_EQ(sums, (std::vector<double>{2, 4}));
}

TEST(Likelihood, ReportsValuesPerTokenAndPerByte) {
  const std::vector<MetricValue> found =
      metric_values(Likelihood{.nats = 6 * std::log(2.0), .tokens = 3, .bytes = 12});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_NEAR(found[0].value, 2 * std::log(2.0), 1e-15);
  EXPECT_NEAR(found[1].value, 4, 1e-14);
  EXPECT_NEAR(found[2].value, 0.5, 1e-15);
  EXPECT_EQ(found[2].unit, "bits per byte");
}

}  // namespace
}  // namespace longspan::error_rate_test
