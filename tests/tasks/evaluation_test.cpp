#include "framework/tasks/evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "framework/tasks/task.h"
#include "models/universal_transformer.h"
#include "tests/models/image_testing.h"
#include "tests/support/small_models.h"

namespace longspan::evaluation_test {
namespace {

using namespace std::string_view_literals;

using testing::small_decoder;
using testing::small_setting;
using testing::small_transformer_xl;
using testing::varied_text;

constexpr double rounding = 1e-11;

struct Text {
  explicit Text(const std::string& text, const Tokenizer& tokenizer = {})
      : file(text), corpus(file.path(), tokenizer) {}
  TemporaryFile file;
  Corpus corpus;
};

// Loss of predicting text[begin + 1 .. end] in nats, in passes of one stream and one segment.
double naive_nats(const Model& model,
                  const std::string& text,
                  std::size_t begin,
                  std::size_t end,
                  std::size_t segment,
                  std::int64_t memory) {
  const NoGradGuard unrecorded;
  const Device device = model.parameters().device();
  RecurrentState remembered;
  double nats = 0;
  for (std::size_t at = begin; at < end; at += segment) {
    const std::size_t count = std::min(segment, end - at);
    const auto ids = Tokenizer().encode(text.substr(at, count + 1), "text");
    const Shape shape{1, static_cast<std::int64_t>(count)};
    const std::span<const std::int64_t> all(ids);
    const Losses result =
        model.losses({.fields = {{"tokens", Tensor::from(all.first(count), shape, device)},
                                 {"targets", Tensor::from(all.last(count), shape, device)}},
                      .carried = remembered,
                      .max_mem_len = memory},
                     ForwardContext{});
    for (const double loss : result.terms.front().values.value().span<double>()) nats += loss;
    remembered = result.carried;
  }
  return nats;
}

TEST(Evaluation, EqualsSumOverSinglePasses) {
  const std::string text = varied_text(53);
  const Text file(text);
  const auto model = make_transformer_xl(small_transformer_xl(2, 6), small_setting());
  // 52 predictions in 3 streams of 17, 17 and 18, in segments of 5: the last one is ragged.
  const EvaluationResult result = evaluate(*model, file.corpus, {.streams = 3, .segment = 5});
  double nats = 0;
  const std::size_t bounds[] = {0, 17, 34, 52};
  for (std::size_t stream = 0; stream < 3; ++stream)
    nats += naive_nats(*model, text, bounds[stream], bounds[stream + 1], 5, 6);
  EXPECT_NEAR(result.nats, nats, rounding * nats);
  EXPECT_EQ(result.tokens, 52);
  EXPECT_EQ(result.bytes, 52);
  EXPECT_DOUBLE_EQ(result.loss(), result.nats / 52);
  EXPECT_DOUBLE_EQ(result.perplexity(), std::exp(result.nats / 52));
  EXPECT_DOUBLE_EQ(result.bits_per_byte().value(), result.nats / 52 / std::numbers::ln2);
}

// Rows that end early have fewer of the last positions.
TEST(Evaluation, ReportsLossByPositionInSegment) {
  const std::string text = varied_text(53);
  const Text file(text);
  const auto model = make_decoder(small_decoder(1), small_setting());
  const auto measured = [&](std::int64_t segment, std::int64_t parts) {
    return evaluate(
        *model, file.corpus, {.streams = 3, .segment = segment, .position_parts = parts});
  };
  EXPECT_TRUE(measured(5, 0).by_position.empty());
  // A model without memory predicts at position 0 from one token, whatever the segment.
  const EvaluationResult each = measured(5, 5);
  ASSERT_EQ(each.by_position.size(), 5u);
  double nats = 0;
  // 17, 17 and 18 predictions in segments of 5.
  const double counts[] = {12, 12, 10, 9, 9};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(each.by_position[i].begin, static_cast<std::int64_t>(i));
    EXPECT_EQ(each.by_position[i].end, static_cast<std::int64_t>(i) + 1);
    nats += counts[i] * each.by_position[i].loss;
  }
  EXPECT_NEAR(nats, each.nats, rounding * nats);
  const EvaluationResult alone = measured(1, 1);
  double first = 0;
  for (const std::size_t begin : {0, 17, 34})
    for (std::size_t at = begin; at < (begin == 34 ? 52 : begin + 17); at += 5)
      first += naive_nats(*model, text, at, at + 1, 1, 0);
  EXPECT_NEAR(each.by_position[0].loss, first / 12, rounding * first);
  EXPECT_NEAR(alone.by_position[0].loss, alone.loss(), rounding * alone.loss());
  const EvaluationResult two = measured(5, 2);
  ASSERT_EQ(two.by_position.size(), 2u);
  EXPECT_EQ(two.by_position[0].end, 3);
  EXPECT_EQ(two.by_position[1].end, 5);
  EXPECT_NEAR(two.by_position[1].loss,
              (each.by_position[3].loss + each.by_position[4].loss) / 2,
              rounding * two.by_position[1].loss);
}

// Reading a segment in chunks changes only the memory that it needs.
TEST(Evaluation, ChunksMatchWholeSegments) {
  const Text file(varied_text(53));
  const auto expect_same = [&](const auto& make) {
    ModelBuildOptions setting = small_setting();
    const EvaluationOptions options = {.streams = 3, .segment = 7, .position_parts = 4};
    const EvaluationResult whole = evaluate(*make(setting), file.corpus, options);
    for (const std::int64_t length : {1, 3, 7}) {
      setting.memory.bptt_chunk_length = length;
      const EvaluationResult chunked = evaluate(*make(setting), file.corpus, options);
      EXPECT_NEAR(chunked.nats, whole.nats, rounding * whole.nats) << length;
      EXPECT_EQ(chunked.tokens, whole.tokens);
      ASSERT_EQ(chunked.by_position.size(), whole.by_position.size());
      for (std::size_t i = 0; i < whole.by_position.size(); ++i)
        EXPECT_NEAR(chunked.by_position[i].loss, whole.by_position[i].loss, rounding * 10);
    }
  };
  expect_same([](const ModelBuildOptions& setting) {
    return make_transformer_xl(small_transformer_xl(2, 6), setting);
  });
  expect_same([](const ModelBuildOptions& setting) {
    DecoderOptions options = small_decoder(2);
    options.common.attention.kinds = {"linear", "sliding_window"};
    options.common.attention.sliding_window = {2};
    return make_decoder(options, setting);
  });
}

TEST(Evaluation, ReportsProgress) {
  const Text file(varied_text(41));
  const auto model = make_transformer_xl(small_transformer_xl(2, 6), small_setting());
  std::vector<std::int64_t> reported;
  const auto listener = [&](const ScanProgress& progress) {
    EXPECT_EQ(progress.path, file.file.path());
    EXPECT_EQ(progress.size, 41);
    reported.push_back(progress.done);
  };
  evaluate(*model, file.corpus, {.streams = 2, .segment = 5, .listener = listener});
  EXPECT_EQ(reported, (std::vector<std::int64_t>{10, 20, 30}));
}

TEST(Evaluation, FullMemoryEqualsOneSegment) {
  const std::string text = varied_text(40);
  const Text file(text);
  const auto model = make_transformer_xl(small_transformer_xl(3, 4), small_setting());
  const double full = naive_nats(*model, text, 0, 39, 39, 0);
  for (const std::int64_t segment : {1, 7, 13, 39, 64}) {
    const EvaluationResult result =
        evaluate(*model, file.corpus, {.segment = segment, .memory = 100});
    EXPECT_NEAR(result.nats, full, rounding * full) << "segments of " << segment;
  }
}

TEST(Evaluation, UsesMemoryLongerThanInTraining) {
  const std::string text = varied_text(60);
  const Text file(text);
  const auto model = make_transformer_xl(small_transformer_xl(2, 4), small_setting());
  const double longer = naive_nats(*model, text, 0, 59, 6, 20);
  const EvaluationResult result = evaluate(*model, file.corpus, {.segment = 6, .memory = 20});
  EXPECT_NEAR(result.nats, longer, rounding * longer);
  EXPECT_GT(std::abs(evaluate(*model, file.corpus, {.segment = 6}).nats - longer), 1e-6);
}

TEST(SlidingWindowEvaluation, EqualsMemoryForOneLayer) {
  const Text file(varied_text(50));
  TransformerXlOptions options = small_transformer_xl(1, 4);
  options.same_length = true;
  const auto model = make_transformer_xl(options, small_setting());
  for (const std::int64_t context : {1, 5, 16}) {
    const EvaluationResult windows =
        evaluate_sliding_window(*model, file.corpus, context, {.streams = 2, .segment = 11});
    for (const std::int64_t segment : {1, 4, 9}) {
      const EvaluationResult memory =
          evaluate(*model, file.corpus, {.streams = 2, .segment = segment, .memory = context});
      EXPECT_NEAR(memory.nats, windows.nats, rounding * windows.nats)
          << "context " << context << ", segments of " << segment;
    }
    EXPECT_EQ(windows.tokens, 49);
  }
}

TEST(SlidingWindowEvaluation, DiffersFromMemoryForTwoLayers) {
  const Text file(varied_text(50));
  TransformerXlOptions options = small_transformer_xl(2, 4);
  options.same_length = true;
  const auto model = make_transformer_xl(options, small_setting());
  const double windows = evaluate_sliding_window(*model, file.corpus, 5, {.segment = 8}).nats;
  const double memory = evaluate(*model, file.corpus, {.segment = 8, .memory = 5}).nats;
  EXPECT_GT(std::abs(windows - memory), 1e-6);
}

// Windows read a position several times, but means count it once.
TEST(SlidingWindowEvaluation, RecordedMeansCountEachPositionOnce) {
  UniversalTransformerOptions options;
  options.count = RecurrenceType::adaptive;
  options.common = small_decoder(1).common;
  options.halting = {.steps = 3, .bias = -100};  // no position halts before the last step
  const auto model = make_universal_transformer(options, small_setting());
  const Text file(varied_text(49));
  const EvaluationResult passes = evaluate(*model, file.corpus, {.segment = 8});
  const EvaluationResult windows = evaluate_sliding_window(*model, file.corpus, 8, {.segment = 8});
  for (const EvaluationResult& result : {passes, windows}) {
    ASSERT_EQ(result.watched.size(), 1u);
    EXPECT_NEAR(result.watched.front().sum / static_cast<double>(result.tokens), 3, rounding);
    EXPECT_EQ(result.watched.front().largest, 3);
  }
}

// A stride of a full window equals segments. Smaller strides give tokens more context.
TEST(SlidingWindowEvaluation, AdvancesByStride) {
  const auto model = make_decoder(small_decoder(2), small_setting());
  const Text file(varied_text(49));
  EvaluationOptions options = {.segment = 8};
  const EvaluationResult segments = evaluate(*model, file.corpus, options);
  options.stride = 8;
  const EvaluationResult strides = evaluate_sliding_window(*model, file.corpus, 8, options);
  EXPECT_EQ(strides.tokens, 48);
  EXPECT_NEAR(strides.nats, segments.nats, rounding * segments.nats);
  options.stride = 1;
  const double each = evaluate_sliding_window(*model, file.corpus, 8, options).nats;
  options.stride = 3;
  const EvaluationResult some = evaluate_sliding_window(*model, file.corpus, 8, options);
  EXPECT_EQ(some.tokens, 48);
  EXPECT_GT(std::abs(some.nats - each), 1e-6);
  EXPECT_GT(std::abs(some.nats - segments.nats), 1e-6);
  // The segment length does not change the result.
  options.segment = 20;
  EXPECT_NEAR(evaluate_sliding_window(*model, file.corpus, 8, options).nats,
              some.nats,
              rounding * some.nats);
  options.stride = 9;
  EXPECT_THROW(evaluate_sliding_window(*model, file.corpus, 8, options), ConfigurationError);
}

TEST(SlidingWindowEvaluation, FullHistoryEqualsFullMemory) {
  const Text file(varied_text(30));
  const auto model = make_transformer_xl(small_transformer_xl(3, 4), small_setting());
  const double memory = evaluate(*model, file.corpus, {.segment = 7, .memory = 29}).nats;
  const double windows = evaluate_sliding_window(*model, file.corpus, 29, {.segment = 10}).nats;
  EXPECT_NEAR(windows, memory, rounding * memory);
}

TEST(SlidingWindowEvaluation, FullHistoryEqualsOneDecoderSegment) {
  const Text file(varied_text(25));
  const auto model = make_decoder(small_decoder(2), small_setting());
  const double full = evaluate(*model, file.corpus, {.segment = 24}).nats;
  const double windows = evaluate_sliding_window(*model, file.corpus, 24, {.segment = 5}).nats;
  EXPECT_NEAR(windows, full, rounding * full);
}

TEST(Evaluation, LimitCountsFirstTokensPerStream) {
  const std::string text = varied_text(41);
  const Text file(text);
  const auto model = make_transformer_xl(small_transformer_xl(2, 6), small_setting());
  const EvaluationOptions options = {.streams = 2, .segment = 4, .tokens_per_stream = 9};
  const double nats = naive_nats(*model, text, 0, 9, 4, 6) + naive_nats(*model, text, 20, 29, 4, 6);
  const EvaluationResult result = evaluate(*model, file.corpus, options);
  EXPECT_NEAR(result.nats, nats, rounding * nats);
  EXPECT_EQ(result.tokens, 18);
  EXPECT_EQ(result.bytes, 18);
  EXPECT_EQ(evaluate_sliding_window(*model, file.corpus, 3, options).tokens, 18);
}

TEST(Evaluation, CountsUtf8Bytes) {
  const std::string text = "aé漢aé漢aé漢a";
  const TemporaryFile letters(text);
  const Text file(text, Tokenizer::characters_of(InputFile(letters.path()), false));
  const auto model = make_transformer_xl(small_transformer_xl(1, 4), small_setting());
  EXPECT_EQ(evaluate(*model, file.corpus, {.segment = 4}).bytes, 18);
  const EvaluationResult first =
      evaluate(*model, file.corpus, {.segment = 4, .tokens_per_stream = 5});
  EXPECT_EQ(first.tokens, 5);
  EXPECT_EQ(first.bytes, 2 + 3 + 1 + 2 + 3);
}

TEST(Evaluation, CountsBytesInUnknownCharacters) {
  const TemporaryFile letters("abc");
  const Text file("abéa漢c", Tokenizer::characters_of(InputFile(letters.path()), true));
  const auto model = make_transformer_xl(small_transformer_xl(1, 4), small_setting());
  for (const std::int64_t limit : {0, 5, 6}) {
    const EvaluationOptions options = {.segment = 2, .tokens_per_stream = limit};
    EXPECT_EQ(evaluate(*model, file.corpus, options).bytes, 1 + 2 + 1 + 3 + 1) << limit;
  }
  EXPECT_EQ(evaluate(*model, file.corpus, {.segment = 2, .tokens_per_stream = 3}).bytes, 4);
}

TEST(Evaluation, AddsUniformCostForUnknownCharacters) {
  const TemporaryFile letters("abc");
  const Tokenizer tokenizer = Tokenizer::characters_of(InputFile(letters.path()), true);
  const auto model = make_transformer_xl(small_transformer_xl(1, 4), small_setting());
  const Text other("a漢字é字字a漢c", tokenizer);
  // Equal ids, all of which are in the vocabulary.
  const Text known("a\1\1\1\1\1a\1c", Tokenizer::characters(U"\1abc"sv, false));
  const double price = std::log(1112064 - 3);
  for (const std::int64_t streams : {1, 2}) {
    const EvaluationOptions options = {.streams = streams, .segment = 3};
    const EvaluationResult expected = evaluate(*model, known.corpus, options);
    const EvaluationResult result = evaluate(*model, other.corpus, options);
    EXPECT_EQ(expected.unknown, std::nullopt);
    EXPECT_EQ(result.unknown, 6);
    EXPECT_DOUBLE_EQ(result.nats, expected.nats + 6 * price);
    EXPECT_EQ(result.tokens, 8);
    EXPECT_EQ(unknown_text(result), "; 6 of 8 tokens (75%) are unknown characters");
    const EvaluationResult windows = evaluate_sliding_window(*model, other.corpus, 2, options);
    EXPECT_DOUBLE_EQ(windows.nats,
                     evaluate_sliding_window(*model, known.corpus, 2, options).nats + 6 * price);
  }
  const EvaluationResult none = evaluate(*model, Text("abcab", tokenizer).corpus, {.segment = 4});
  EXPECT_EQ(none.unknown, 0);
  EXPECT_EQ(unknown_text(none), "");
}

TEST(Evaluation, SupportsSegmentsLongerThanText) {
  const Text file(varied_text(40));
  const auto model = make_transformer_xl(small_transformer_xl(1, 4), small_setting());
  const EvaluationResult full = evaluate(*model, file.corpus, {.segment = 39});
  for (const std::int64_t segment : {std::int64_t{1000}, std::numeric_limits<std::int64_t>::max()})
    EXPECT_EQ(evaluate(*model, file.corpus, {.segment = segment, .position_parts = 3}).nats,
              full.nats);
}

TEST(Evaluation, PrintsNaNLossWithoutSign) {
  const Text file(varied_text(20));
  const auto model = make_transformer_xl(small_transformer_xl(1, 4), small_setting());
  for (const double sign : {-1.0, 1.0}) {
    for (const auto& parameter : model->parameters().all())
      std::ranges::fill(parameter->master.span<double>(), std::copysign(std::nan(""), sign));
    const EvaluationResult result = evaluate(*model, file.corpus, {.segment = 4});
    EXPECT_EQ(fmt::format("{} {}", result.loss(), result.bits_per_byte().value()), "nan nan");
  }
}

TEST(Evaluation, RejectsUnsupportedOptions) {
  const Text file(varied_text(30));
  DecoderOptions learned = small_decoder(1);
  learned.positions.kind = PositionEmbeddingType::learned;
  const auto decoder = make_decoder(learned, small_setting());
  EXPECT_EQ(message_of<ConfigurationError>(
                [&] { evaluate(*decoder, file.corpus, {.segment = 8, .memory = 16}); }),
            "the model does not support mem_len > 0, found 16");
  EXPECT_EQ(
      message_of<ConfigurationError>([&] { evaluate(*decoder, file.corpus, {.segment = 9}); }),
      "expected at most 8 tokens per pass, found 9");
  EXPECT_EQ(message_of<ConfigurationError>(
                [&] { evaluate_sliding_window(*decoder, file.corpus, 9, {.segment = 4}); }),
            "expected at most 8 tokens per pass, found 9");
  EXPECT_EQ(message_of<ConfigurationError>(
                [&] { evaluate_sliding_window(*decoder, file.corpus, 0, {.segment = 4}); }),
            "window: expected at least 1 token, found 0");
}

TEST(Evaluation, ReportsProgressInImages) {
  using namespace std::string_literals;
  const TemporaryFile images("\0\0\x08\x03\0\0\0\3\0\0\0\2\0\0\0\2abcdefghijkl"s);
  ImageTransformerOptions options;
  options.common = testing::small_options(1);
  options.common.tied_embeddings = false;
  ModelBuildOptions setting = small_setting();
  setting.segment = 4;
  setting.classes = 1;
  setting.image = ImageShape{2, 2, 1};
  const auto model = testing::make_image_transformer(options, setting);
  const Tokenizer bytes;
  DataOptions data;
  data.format = DataFormat::images;
  data.buckets.batch_tokens = 8;  // one image per batch, as columns are multiples of 8
  std::vector<std::string> messages;
  task_kind("image_generation")
      .evaluate({.model = *model,
                 .tokenizer = bytes,
                 .labels = LabelSet({"image"}),
                 .image = setting.image,
                 .data = data,
                 .file = images.path(),
                 .target = ConfigPath(),
                 .say = [&](const std::string& text) { messages.push_back(text); },
                 .progress_interval = 0});
  EXPECT_EQ(
      messages,
      (std::vector<std::string>{"1 of 3 images done", "2 of 3 images done", "3 of 3 images done"}));
}

}  // namespace
}  // namespace longspan::evaluation_test
