// Classes and spans against scikit-learn and seqeval.
#include <gtest/gtest.h>

#include <algorithm>

#include "framework/core/error.h"
#include "framework/metrics/classification.h"
#include "framework/metrics/sums.h"
#include "framework/metrics/text.h"
#include "tests/metrics/label_cases.h"

namespace longspan::labels_test {
namespace {

constexpr double tolerance = 1e-12;

using Ids = std::vector<std::int64_t>;

const std::vector<std::string> tags = {"O", "B-X", "I-X", "E-X", "S-X", "B-Y", "I-Y", "E-Y", "S-Y"};

Ids ids_of(const std::string& sentence) {
  Ids ids;
  for (const std::string_view tag : words_of(sentence))
    ids.push_back(std::ranges::find(tags, tag) - tags.begin());
  return ids;
}

// Returns the metric over two ranks from the part of each.
template <typename Metric>
Metric joined(const Metric& metric, const Metric& other) {
  std::vector<double> sums, more;
  append_sums(metric, sums);
  append_sums(other, more);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += more[i];
  Metric result = metric;
  EXPECT_TRUE(consume_sums(result, sums).empty());
  return result;
}

TEST(SpanTags, MatchesConllevalForAnyTagSequence) {
  const SpanTags scheme(tags, SpanScheme::prefix);
  EXPECT_EQ(scheme.types(), (std::vector<std::string>{"X", "Y"}));
  for (const auto& one : testing::span_cases()) {
    EXPECT_EQ(scheme.spans_of(ids_of(one.predicted)), one.predicted_spans) << one.predicted;
    EXPECT_EQ(scheme.spans_of(ids_of(one.reference)), one.reference_spans) << one.reference;
  }
  EXPECT_TRUE(scheme.spans_of({}).empty());
}

TEST(SpanScores, MatchesSeqeval) {
  const SpanTags scheme(tags, SpanScheme::prefix);
  SpanScores parts[] = {SpanScores(2), SpanScores(2)};
  std::size_t next = 0;
  for (const auto& one : testing::span_cases())
    parts[next++ % 2].add(scheme, ids_of(one.predicted), ids_of(one.reference));
  const SpanScores all = joined(parts[0], parts[1]);
  const RetrievalCounts found[] = {all.types()[0], all.types()[1], all.total()};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(found[i].precision(), testing::span_scores()[i][0], tolerance);
    EXPECT_NEAR(found[i].recall(), testing::span_scores()[i][1], tolerance);
    EXPECT_NEAR(found[i].f1(), testing::span_scores()[i][2], tolerance);
  }
  const std::vector<MetricValue> values = metric_values(all, scheme.types());
  ASSERT_EQ(values.size(), 9u);
  EXPECT_EQ(values[2], (MetricValue{"span_f1", all.total().f1(), "percent"}));
  EXPECT_EQ(values[8], (MetricValue{"f1/Y", all.types()[1].f1(), "percent"}));
}

TEST(SpanScores, IgnoresLaterPiecesOfWord) {
  const SpanTags scheme(tags, SpanScheme::prefix);
  SpanScores scores(2);
  // B-X, a piece, I-X, O: the piece's prediction O does not end the span.
  scores.add(scheme, Ids{1, 0, 2, 0}, Ids{1, -1, 2, 0});
  EXPECT_EQ(scores.total().right, 1);
  EXPECT_EQ(scores.total().predicted, 1);
  EXPECT_EQ(scores.total().reference, 1);
  EXPECT_THROW(scores.add(scheme, Ids{1}, Ids{1, 2}), Failure);
  EXPECT_THROW(scores.add(scheme, Ids{9}, Ids{1}), Failure);
}

TEST(SpanScores, MatchesSeqevalInEachScheme) {
  for (const auto& one : testing::scheme_cases()) {
    SCOPED_TRACE(one.tags);
    std::vector<std::string> names;
    for (const std::string_view name : words_of(one.tags)) names.emplace_back(name);
    const std::optional<SpanScheme> found = span_scheme_of(names);
    ASSERT_TRUE(found.has_value());
    const SpanTags scheme(names, *found);
    SpanScores scores(scheme.types().size());
    const auto ids = [&](const std::string& sentence) {
      Ids result;
      for (const std::string_view tag : words_of(sentence))
        result.push_back(std::ranges::find(names, tag) - names.begin());
      return result;
    };
    for (const auto& [predicted, reference] : one.sentences)
      scores.add(scheme, ids(predicted), ids(reference));
    EXPECT_EQ(scores.total().predicted, one.predicted);
    EXPECT_EQ(scores.total().reference, one.reference);
    EXPECT_NEAR(scores.total().precision(), one.scores[0], tolerance);
    EXPECT_NEAR(scores.total().recall(), one.scores[1], tolerance);
    EXPECT_NEAR(scores.total().f1(), one.scores[2], tolerance);
  }
}

TEST(SpanTags, DetectsSchemeFromTags) {
  const auto scheme = [](const std::vector<std::string>& names) { return span_scheme_of(names); };
  EXPECT_EQ(scheme({"B-X", "I-X", "O"}), SpanScheme::prefix);
  EXPECT_EQ(scheme({"I-X", "O"}), SpanScheme::prefix);
  EXPECT_EQ(scheme({"B", "I", "O"}), SpanScheme::prefix);
  EXPECT_EQ(scheme({"B-X", "E-X"}), SpanScheme::prefix);
  EXPECT_EQ(scheme({"B-X", "O", "PAD"}), SpanScheme::prefix);
  EXPECT_EQ(scheme({"X-B", "X-I", "O"}), SpanScheme::suffix);
  EXPECT_EQ(scheme({"B-X", "L-X", "O", "PAD"}), SpanScheme::bilou);
  EXPECT_EQ(scheme({"O", "U-X"}), SpanScheme::bilou);
  EXPECT_EQ(scheme({"B-X", "NOUN"}), std::nullopt);
  EXPECT_EQ(scheme({"DT", "NN", "O"}), std::nullopt);
  EXPECT_EQ(scheme({"O"}), std::nullopt);
  EXPECT_EQ(scheme({"O", "X"}), std::nullopt);
  EXPECT_EQ(scheme({"B-X", "E-X", "O", "U-X"}), std::nullopt);
}

TEST(SpanTags, ReportsTagsOutsideScheme) {
  EXPECT_EQ(span_remark({"B-X", "I-X", "O"}), "");
  EXPECT_EQ(span_remark({"DT", "NN"}), "");
  EXPECT_EQ(span_remark({"B-X", "E-X", "O", "U-X"}),
            "no span F1: tags mix L or U of BILOU with E or S of BIOES");
  EXPECT_EQ(span_remark({"B-X", "O", "PAD", "X"}),
            "tags without a prefix such as B- or I-: \"PAD\", \"X\"; span F1 counts them as in "
            "seqeval");
}

TEST(Classification, MatchesScikitLearn) {
  const Ids labels = testing::class_labels(), guesses = testing::class_guesses();
  Classification first(5), rest(5);
  first.add(std::span(guesses).first(30), std::span(labels).first(30));
  rest.add(std::span(guesses).subspan(30), std::span(labels).subspan(30));
  const std::vector<MetricValue> found =
      metric_values(joined(first, rest), {"no", "perhaps", "yes", "never", "both"});
  const std::vector<double> expected = testing::class_scores();
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i].value, expected[i], tolerance) << found[i].name;
  EXPECT_EQ(found[0].name, "accuracy");
  EXPECT_EQ(found[11].name, "f1/yes");
  EXPECT_EQ(found[11].unit, "percent");
}

// scikit-learn: f1_score(["x", "x", "y", "y"], ["x", "z", "y", "y"], average="macro").
TEST(Classification, MacroF1IncludesPredictedOnlyClass) {
  Classification found(4);  // the last class does not occur
  found.add(Ids{0, 2, 1, 1}, Ids{0, 0, 1, 1});
  EXPECT_NEAR(found.macro_f1(), 55.55555555555556, tolerance);
}

TEST(Classification, IgnoresMaskedLabelsAndRejectsInvalidClasses) {
  Classification found(2);
  found.add(Ids{0, 1, -1, 1}, Ids{0, -1, 1, 1});
  EXPECT_NEAR(found.accuracy(), 200. / 3, tolerance);
  EXPECT_NEAR(found.micro_f1(), 80, tolerance);  // 2 right of 2 predicted and 3 labels
  EXPECT_EQ(Classification(3).accuracy(), 0);
  EXPECT_EQ(Classification(3).macro_f1(), 0);
  EXPECT_THROW(found.add(2, 0), Failure);
  EXPECT_THROW(found.add(0, 2), Failure);
  EXPECT_THROW(found.add(Ids{0}, Ids{}), Failure);
  EXPECT_THROW(metric_values(found, {"one"}), Failure);
}

}  // namespace
}  // namespace longspan::labels_test
