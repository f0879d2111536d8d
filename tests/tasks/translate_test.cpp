#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "framework/data/tokenization/special_tokens.h"
#include "tests/data/framing_tokenizer.h"
#include "tests/tasks/translate_testing.h"

namespace longspan::translate_test {
namespace {

using testing::format_results;
using testing::small_encoder_decoder;
using testing::translated;

constexpr std::int64_t ids = testing::ids_of_bytes;

const std::vector<std::string> lines = {
    "abc", "", "a longer line", "x", "yet another line of these", "abd", "q", ""};
constexpr std::int64_t beyond = 4;

// Recomputes the source and every hypothesis for each token, without a KV cache or padding.
class UncachedDecoder {
 public:
  UncachedDecoder(const Model& model, const std::string& line)
      : UncachedDecoder(model, Tokenizer().encode(line, "line")) {}
  UncachedDecoder(const Model& model, std::vector<std::int64_t> source)
      : model_(model), source_(std::move(source)) {}

  Tensor operator()(std::span<const std::int64_t> tokens, std::span<const std::int64_t> rows) {
    std::vector<std::vector<std::int64_t>> next;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      next.push_back(read_.empty() ? std::vector<std::int64_t>()
                                   : read_[static_cast<std::size_t>(rows[i])]);
      next.back().push_back(tokens[i]);
    }
    read_ = std::move(next);
    const Tensor all = Tensor::empty({std::ssize(read_), ids}, DType::f64, Device::cpu());
    for (std::int64_t i = 0; i < std::ssize(read_); ++i)
      std::ranges::copy(after(read_[static_cast<std::size_t>(i)]),
                        all.slice(i, i + 1).span<double>().begin());
    return all;
  }

 private:
  std::vector<double> after(std::span<const std::int64_t> output) const {
    const Device host = Device::cpu();
    const std::int64_t length[] = {std::ssize(source_)}, time[] = {std::ssize(output)};
    const Tensor scores =
        model_
            .scores(
                {.fields = {{"source", Tensor::from<std::int64_t>(source_, {1, length[0]}, host)},
                            {"source_length", Tensor::from<std::int64_t>(length, {1}, host)},
                            {"tokens", Tensor::from(output, {1, time[0]}, host)},
                            {"length", Tensor::from<std::int64_t>(time, {1}, host)}}},
                ForwardContext{})
            .scores.value();
    const auto last = scores.span<double>().last(static_cast<std::size_t>(ids));
    return {last.begin(), last.end()};
  }

  const Model& model_;
  std::vector<std::int64_t> source_;
  std::vector<std::vector<std::int64_t>> read_;
};

std::vector<Translation> expected_of(const Model& model,
                                     const std::string& line,
                                     const TranslateOptions& options) {
  if (line.empty()) return {{}};
  const NoGradGuard unrecorded;
  const SpecialTokenIds special = sentence_ids({});
  UncachedDecoder reader(model, line);
  const std::vector<SearchInput> input = {
      {.index = 0, .first = special.begin, .longest = std::ssize(line) + options.max_extra_length}};
  const auto found = beam_search(
      [&](auto tokens, auto rows) { return reader(tokens, rows); },
      input,
      {.vocabulary = {.end = special.end, .size = special.vocabulary, .forbidden = {special.begin}},
       .beam = options.beam,
       .n_best = options.n_best,
       .penalty = options.penalty,
       .alpha = options.alpha});
  std::vector<Translation> result;
  for (const Hypothesis& one : found.front())
    result.push_back({decode_sentence({}, one.tokens), one.score, one.log_probability});
  return result;
}

void expect_matches_uncached(const Model& model, const TranslateOptions& options) {
  const std::vector<std::string> some = {"abc", "", "longer", "x"};
  const auto found = translated(model, some, options);
  ASSERT_EQ(found.size(), some.size());
  for (std::size_t i = 0; i < some.size(); ++i) {
    const auto expected = expected_of(model, some[i], options);
    ASSERT_EQ(found[i].size(), expected.size()) << some[i];
    for (std::size_t j = 0; j < expected.size(); ++j) {
      EXPECT_EQ(found[i][j].text, expected[j].text) << some[i];
      EXPECT_NEAR(found[i][j].score, expected[j].score, 1e-12);
      EXPECT_NEAR(found[i][j].log_probability, expected[j].log_probability, 1e-12);
    }
  }
}

// Picks the most likely token of each step without beam search.
TEST(Translate, GreedyMatchesUncachedDecoding) {
  const NoGradGuard unrecorded;
  const auto model = small_encoder_decoder();
  const auto found = translated(*model, lines, {.beam = 1, .max_extra_length = beyond});
  const SpecialTokenIds special = sentence_ids({});
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    UncachedDecoder reader(*model, lines[i]);
    std::vector<std::int64_t> output;
    for (std::int64_t next = special.begin; std::ssize(output) < std::ssize(lines[i]) + beyond;) {
      const std::int64_t row = 0;
      const Tensor logits = reader({&next, 1}, {&row, 1});
      logits.span<double>()[static_cast<std::size_t>(special.begin)] =
          -std::numeric_limits<double>::infinity();
      next = std::ranges::max_element(logits.span<double>()) - logits.span<double>().begin();
      if (next == special.end) break;
      output.push_back(next);
    }
    EXPECT_EQ(found[i].front().text, decode_sentence({}, output)) << lines[i];
  }
}

// The source has its special tokens. The result starts after two prefix tokens.
TEST(Translate, AddsSpecialTokensFromTokenizer) {
  const NoGradGuard unrecorded;
  const auto model = small_encoder_decoder();
  const Tokenizer tokenizer = testing::framing_tokenizer();
  const std::vector<std::string> inputs = {"a b", "", "c"};
  const auto found =
      translate(*model,
                tokenizer,
                inputs,
                {.beam = 1, .max_extra_length = beyond, .special_tokens = testing::as_bart},
                [](std::size_t) { return "here"; });
  const std::vector<std::vector<std::int64_t>> sources = {{0, 4, 5, 2}, {}, {0, 6, 2}};
  for (const std::size_t i : {0, 2}) {
    UncachedDecoder reader(*model, sources[i]);
    const std::int64_t row = 0, begin = 2, first = 0;
    reader({&begin, 1}, {&row, 1});
    std::vector<std::int64_t> output;
    for (std::int64_t next = first; std::ssize(output) < std::ssize(sources[i]) + beyond;) {
      const auto logits = reader({&next, 1}, {&row, 1});
      const auto known =
          logits.span<double>().first(static_cast<std::size_t>(tokenizer.vocabulary()));
      next = std::ranges::max_element(known) - known.begin();
      if (next == begin) break;  // also ends a result
      output.push_back(next);
    }
    EXPECT_EQ(found[i].front().text, decode_sentence(tokenizer, output, testing::as_bart));
  }
  EXPECT_EQ(found[1].front().text, "");
}

TEST(Translate, KVCacheMatchesUncachedDecoding) {
  for (const CrossAttentionMapping wiring : {CrossAttentionMapping::last,
                                             CrossAttentionMapping::same,
                                             CrossAttentionMapping::reverse,
                                             CrossAttentionMapping::mix,
                                             CrossAttentionMapping::full}) {
    SCOPED_TRACE(static_cast<int>(wiring));
    const auto model = small_encoder_decoder(wiring);
    expect_matches_uncached(*model, {.beam = 1, .max_extra_length = beyond});
    expect_matches_uncached(*model, {.beam = 3, .n_best = 2, .max_extra_length = beyond});
  }
}

TEST(Translate, CopyMechanismMatchesUncachedDecoding) {
  EncoderDecoderOptions options;
  options.source.copies = true;
  options.wiring = CrossAttentionMapping::full;
  const auto model = small_encoder_decoder(options);
  expect_matches_uncached(*model, {.beam = 3, .n_best = 2, .max_extra_length = beyond});
}

TEST(Translate, LearnedPositionsMatchUncachedDecoding) {
  EncoderDecoderOptions options;
  options.positions.kind = PositionEmbeddingType::learned;
  options.positions.longest = 40;
  options.embeddings = EncoderDecoderOptions::Embeddings::apart;
  expect_matches_uncached(*small_encoder_decoder(options), {.beam = 2, .max_extra_length = beyond});
  options.positions.first = 2;
  options.input = {.scaled = false, .norm = true};
  expect_matches_uncached(*small_encoder_decoder(options), {.beam = 2, .max_extra_length = beyond});
}

TEST(Translate, LinesAreIndependent) {
  const auto model = small_encoder_decoder();
  for (TranslateOptions options : {TranslateOptions{.beam = 3, .n_best = 3},
                                   TranslateOptions{.n_best = 2, .sampling = SamplingOptions()}}) {
    options.max_extra_length = beyond;
    const auto found = translated(*model, lines, options);
    for (const std::int64_t batch_tokens : {1, 30, 60}) {
      options.batch_tokens = batch_tokens;
      EXPECT_EQ(format_results(translated(*model, lines, options)), format_results(found))
          << batch_tokens;
    }
    if (options.sampling) continue;  // random numbers depend on the line's index
    std::vector<std::string> reversed(lines.rbegin(), lines.rend());
    auto others = translated(*model, reversed, options);
    std::ranges::reverse(others);
    EXPECT_EQ(format_results(others), format_results(found));
  }
}

TEST(Translate, EmptyLineHasOneEmptyResult) {
  const auto model = small_encoder_decoder();
  const auto found = translated(*model, {"", "ab", ""}, {.beam = 2, .n_best = 2});
  for (const std::size_t i : {0, 2}) {
    ASSERT_EQ(found[i].size(), 1u);
    EXPECT_EQ(found[i].front().text, "");
    EXPECT_EQ(found[i].front().score, 0);
  }
  EXPECT_EQ(translated(*model, {"", ""}, {}).size(), 2u);
  EXPECT_TRUE(translated(*model, {}, {}).empty());
}

TEST(Translate, NBestResultsAreSortedAndDistinct) {
  const auto model = small_encoder_decoder();
  for (const auto& of_line :
       translated(*model, {"abc", "x"}, {.beam = 4, .n_best = 4, .max_extra_length = beyond})) {
    ASSERT_EQ(of_line.size(), 4u);
    for (std::size_t i = 1; i < of_line.size(); ++i) {
      EXPECT_GE(of_line[i - 1].score, of_line[i].score);
      EXPECT_NE(of_line[i - 1].log_probability, of_line[i].log_probability);
    }
  }
}

TEST(Translate, SamplesDependOnSeed) {
  const auto model = small_encoder_decoder();
  TranslateOptions options = {
      .n_best = 3, .sampling = SamplingOptions{.top_k = 50}, .seed = 5, .max_extra_length = beyond};
  const auto found = translated(*model, lines, options);
  EXPECT_EQ(format_results(translated(*model, lines, options)), format_results(found));
  EXPECT_NE(found[2][0].text, found[2][1].text);
  options.n_best = 1;
  EXPECT_EQ(translated(*model, lines, options)[4][0].text, found[4][0].text);
  options.seed = 6;
  EXPECT_NE(translated(*model, lines, options)[4][0].text, found[4][0].text);
  // A temperature of 0 is greedy.
  options.sampling->temperature = 0;
  const auto greedy = translated(*model, lines, {.beam = 1, .max_extra_length = beyond});
  const auto cold = translated(*model, lines, options);
  for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(cold[i][0].text, greedy[i][0].text);
}

TEST(Translate, ReportsLineLongerThanPositionTable) {
  EncoderDecoderOptions options;
  options.positions.kind = PositionEmbeddingType::learned;
  options.positions.longest = 8;
  const auto model = small_encoder_decoder(options);
  EXPECT_EQ(message_of<DataError>([&] {
              translated(*model, {"ab", "abcdefghi"}, {});
            }),
            "lines:2: expected at most 8 tokens, found 9");
  // A source and a result as long as the table are valid.
  const auto found = translated(*model, {"abcdefgh"}, {.beam = 1});
  EXPECT_LE(found.front().front().text.size(), 3u * 7u);  // an invalid byte becomes three
}

// Only one line has a token whose embedding is NaN.
TEST(Translate, ReportsLineWithNaNLogits) {
  EncoderDecoderOptions options;
  options.embeddings = EncoderDecoderOptions::Embeddings::apart;
  const auto model = small_encoder_decoder(options);
  for (const auto& parameter : model->parameters().all())
    if (parameter->name == "source_embedding/weight")
      std::ranges::fill(parameter->master.slice('z', 'z' + 1).span<double>(),
                        std::numeric_limits<double>::quiet_NaN());
  model->parameters().refresh_compute();
  for (const TranslateOptions& decoding : {TranslateOptions{.beam = 1},
                                           TranslateOptions{.beam = 3},
                                           TranslateOptions{.sampling = SamplingOptions()}}) {
    const std::string message = message_of<Failure>([&] {
      translated(*model, {"some longer line", "", "abzc", "abc"}, decoding);
    });
    EXPECT_EQ(message, "input 2: the logit of token 0 is NaN");
  }
}

TEST(Translate, RejectsBadOptionsEvenForEmptyLines) {
  const auto model = small_encoder_decoder();
  const auto error_for = [&](const TranslateOptions& options) {
    return message_of<ConfigurationError>([&] { translated(*model, {""}, options); });
  };
  EXPECT_EQ(error_for({.beam = 2, .n_best = 3}), "n-best: expected 1 to the beam of 2, found 3");
  EXPECT_EQ(error_for({.beam = 0}), "beam: expected at least 1, found 0");
  EXPECT_EQ(error_for({.sampling = SamplingOptions{.top_p = 2}}),
            "top-p: expected more than 0 and at most 1, found 2");
  EXPECT_EQ(error_for({.n_best = 0, .sampling = SamplingOptions()}),
            "samples: expected at least 1, found 0");
}

TEST(Translate, ReportsFinishedLines) {
  const auto model = small_encoder_decoder();
  std::vector<std::size_t> done;
  translate(
      *model,
      Tokenizer(),
      std::vector<std::string>{"ab", "", "cd", "efg"},
      {.beam = 1, .max_extra_length = 1, .batch_tokens = 4},
      [](std::size_t) { return "here"; },
      [&](std::size_t count) { done.push_back(count); });
  EXPECT_EQ(done, (std::vector<std::size_t>{1, 3}));
}

}  // namespace
}  // namespace longspan::translate_test
