#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/tasks/evaluation.h"
#include "framework/trainer/trainer.h"
#include "tests/support/small_models.h"

namespace longspan::needle_in_haystack_test {
namespace {

using testing::small_decoder;
using testing::small_setting;
using testing::varied_text;

constexpr std::int64_t segment = 96;

// Example e of `options` as evaluate_needles must read it, and the offset of its answer.
struct Expected {
  std::string text;
  std::size_t answer;
  std::int64_t distance;
};

Expected expected_example(const std::string& corpus, const NeedleOptions& options, std::int64_t e) {
  const Needle needle = needle_of(e);
  const std::string sentence = needle.question + needle.answer + needle.end;
  const std::size_t text = static_cast<std::size_t>(options.segment) + 1 - sentence.size() -
                           needle.question.size() - needle.answer.size();
  const auto examples = static_cast<std::size_t>(options.depths * options.count);
  const std::size_t begin = (corpus.size() - text + 1) * static_cast<std::size_t>(e) / examples;
  const auto depth = static_cast<std::size_t>(e / options.count);
  const std::size_t before = text * depth / static_cast<std::size_t>(options.depths - 1);
  std::string all = corpus.substr(begin, text).insert(before, sentence);
  all += needle.question + needle.answer;
  const std::size_t answer = all.size() - needle.answer.size();
  return {all, answer, static_cast<std::int64_t>(answer - all.find(needle.answer))};
}

Batch batch_of(const std::vector<std::string>& rows) {
  const Shape shape = {std::ssize(rows), segment};
  const Tensor tokens = Tensor::empty(shape, DType::i64, Device::cpu());
  const Tensor targets = tokens.empty_like();
  for (std::int64_t row = 0; row < std::ssize(rows); ++row) {
    const auto ids = Tokenizer().encode(rows[static_cast<std::size_t>(row)], "text");
    std::copy(ids.begin(), ids.end() - 1, tokens.slice(row, row + 1).span<std::int64_t>().begin());
    std::copy(ids.begin() + 1, ids.end(), targets.slice(row, row + 1).span<std::int64_t>().begin());
  }
  return {.fields = {{"tokens", tokens}, {"targets", targets}},
          .counts = {{"tokens", shape.elements()}},
          .place = "in a test"};
}

ModelBuildOptions setting() {
  ModelBuildOptions made = small_setting();
  made.segment = segment;
  return made;
}

TEST(NeedleInHaystack, MatchesLossesPerExample) {
  const std::string text = varied_text(400);
  const TemporaryFile file(text);
  const Corpus corpus(file.path(), Tokenizer());
  const auto model = make_decoder(small_decoder(1), setting());
  // Five depths with two examples each, in passes of four: the last pass has two extra rows.
  const NeedleOptions options = {.segment = segment, .batch = 4, .depths = 5, .count = 2};
  const std::vector<NeedlePosition> places = evaluate_needles(*model, corpus, options);
  ASSERT_EQ(places.size(), 5u);
  const NoGradGuard unrecorded;
  for (std::int64_t depth = 0; depth < 5; ++depth) {
    double nats = 0;
    double tokens = 0;
    for (std::int64_t e = 2 * depth; e < 2 * depth + 2; ++e) {
      const Expected example = expected_example(text, options, e);
      ASSERT_EQ(std::ssize(example.text), segment + 1);
      const Losses losses =
          model->losses({.fields = batch_of({example.text}).fields}, ForwardContext{});
      const auto all = losses.terms.front().values.value().span<double>();
      for (std::size_t i = example.answer - 1; i < all.size(); ++i) {
        nats += all[i];
        ++tokens;
      }
      EXPECT_EQ(places[static_cast<std::size_t>(depth)].distance, example.distance);
    }
    EXPECT_NEAR(places[static_cast<std::size_t>(depth)].loss, nats / tokens, 1e-11 * nats);
    EXPECT_EQ(places[static_cast<std::size_t>(depth)].found, 0);  // the model is untrained
  }
  EXPECT_GT(places.front().distance, places.back().distance);
}

TEST(NeedleInHaystack, FindsNeedlesThatTheModelLearned) {
  const std::string text = varied_text(300);
  const TemporaryFile file(text);
  const Corpus corpus(file.path(), Tokenizer());
  const NeedleOptions options = {.segment = segment, .batch = 2, .depths = 2, .count = 2};
  std::vector<std::string> rows;
  for (std::int64_t e = 0; e < 3; ++e) rows.push_back(expected_example(text, options, e).text);
  DecoderOptions decoder = small_decoder(2);
  decoder.common.dropout = 0;
  TrainingOptions training;
  training.learning_rate = 2e-2;
  training.schedule = ScheduleKind::constant;
  training.warmup = 0;
  Trainer trainer(make_decoder(decoder, setting()), training, Random(1));
  Batch answers = batch_of(rows);
  for (std::int64_t row = 0; row < std::ssize(rows); ++row) {
    const auto targets = answers.fields.at("targets").slice(row, row + 1).span<std::int64_t>();
    std::fill(targets.begin(), targets.end() - 6, ignored_target);
  }
  for (int step = 0; step < 150; ++step) trainer.step(answers);
  // The model finds the three trained examples, but not the fourth.
  const std::vector<NeedlePosition> places = evaluate_needles(trainer.model(), corpus, options);
  EXPECT_EQ(places[0].found, 2);
  EXPECT_LT(places[0].loss, std::numbers::ln2);
  EXPECT_EQ(places[1].found, 1);
}

TEST(NeedleInHaystack, ReportsProgressAndStopsOnException) {
  const TemporaryFile file(varied_text(400));
  const Corpus corpus(file.path(), Tokenizer());
  const auto model = make_decoder(small_decoder(1), setting());
  NeedleOptions options = {.segment = segment, .batch = 2, .depths = 3, .count = 1};
  std::vector<std::int64_t> done;
  options.listener = [&](const ScanProgress& progress) {
    EXPECT_EQ(progress.size, 400);
    done.push_back(progress.done);
  };
  evaluate_needles(*model, corpus, options);
  EXPECT_EQ(done, (std::vector<std::int64_t>{266, 400}));
  options.listener = [](const ScanProgress&) { throw Failure("enough"); };
  EXPECT_THROW(evaluate_needles(*model, corpus, options), Failure);
}

TEST(NeedleInHaystack, RejectsInvalidSegmentsAndCounts) {
  const TemporaryFile file(varied_text(200));
  const Corpus corpus(file.path(), Tokenizer());
  const auto model = make_decoder(small_decoder(1), setting());
  EXPECT_THROW(evaluate_needles(*model, corpus, {.segment = 20}), ConfigurationError);
  EXPECT_THROW(evaluate_needles(*model, corpus, {.segment = 201}), DataError);
  for (const std::int64_t count : {std::int64_t{1} << 20, INT64_MAX})
    EXPECT_THROW(
        evaluate_needles(*model, corpus, {.segment = segment, .depths = 2, .count = count}),
        ConfigurationError);
}

}  // namespace
}  // namespace longspan::needle_in_haystack_test
