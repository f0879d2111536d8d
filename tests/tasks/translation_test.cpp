// The translation task: reading, validation and output.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <set>
#include <sstream>

#include "framework/data/tokenization/special_tokens.h"
#include "tests/tasks/translation_testing.h"

namespace longspan::translation_test {
namespace {

using testing::OpenPairs;
using testing::PairFiles;
using testing::small_encoder_decoder;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Loss of one pair in nats, without padding.
double naive_nats(const Model& model, const std::string& source, const std::string& target) {
  const NoGradGuard unrecorded;
  const Device host = Device::cpu();
  const SpecialTokenIds special = sentence_ids({});
  const auto of = [&](const std::vector<std::int64_t>& values) {
    return Tensor::from<std::int64_t>(values, {1, std::ssize(values)}, host);
  };
  const auto length = [&](const std::vector<std::int64_t>& values) {
    const std::int64_t count[] = {std::ssize(values)};
    return Tensor::from<std::int64_t>(count, {1}, host);
  };
  const auto ids = Tokenizer().encode(source, "source");
  auto targets = Tokenizer().encode(target, "target");
  auto tokens = targets;
  tokens.insert(tokens.begin(), special.begin);
  targets.push_back(special.end);
  const Losses losses = model.losses({.fields = {{"source", of(ids)},
                                                 {"source_length", length(ids)},
                                                 {"tokens", of(tokens)},
                                                 {"targets", of(targets)},
                                                 {"length", length(targets)}}},
                                     ForwardContext{});
  double nats = 0;
  for (const double loss : losses.terms.front().values.value().span<double>()) nats += loss;
  return nats;
}

std::vector<std::string> names_of(const Measurement& measured) {
  std::vector<std::string> names;
  for (const MetricValue& metric : measured.metric_values) names.push_back(metric.name);
  return names;
}
using Names = std::vector<std::string>;

TEST(Translation, ValidationEqualsMeanOverSinglePairs) {
  const PairFiles text;
  const OpenPairs files(text);
  const auto model = small_encoder_decoder(CrossAttentionMapping::mix);
  const auto sources = lines_of(text.valid_source), targets = lines_of(text.valid_target);
  double nats = 0, bytes = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    nats += naive_nats(*model, sources[i], targets[i]);
    bytes += static_cast<double>(targets[i].size() + 1);
  }
  const Measurement measured = files.open()->validate(*model).value();
  EXPECT_EQ(names_of(measured), (Names{"loss", "perplexity", "bits_per_byte"}));
  const double loss = nats / bytes;  // one token per byte, with the end token
  EXPECT_NEAR(measured.find("loss").value(), loss, 1e-12 * loss);
  EXPECT_NEAR(measured.find("perplexity").value(), std::exp(loss), 1e-11 * std::exp(loss));
  EXPECT_NEAR(measured.find("bits_per_byte").value(), loss / std::numbers::ln2, 1e-12 * loss);
  EXPECT_TRUE(measured.text.starts_with(fmt::format("validation loss {:.4f}, perplexity", loss)))
      << measured.text;
}

TEST(Translation, LimitedValidationSelectsPairsBySeed) {
  OpenPairs files;
  files.data.buckets.batch_tokens = 32;  // one pair per batch
  const auto model = small_encoder_decoder();
  std::set<double> expected, found;
  const auto rounded = [](double loss) { return std::round(loss * 1e9); };
  expected.insert(rounded(naive_nats(*model, "cat", "katze") / 6));
  expected.insert(rounded(naive_nats(*model, "a long line", "l") / 2));
  expected.insert(rounded(naive_nats(*model, "b", "eine andere zeile") / 18));
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Measurement measured = files.open({}, 1, 0, seed)->validate(*model).value();
    found.insert(rounded(measured.metric_values.front().value));
    EXPECT_DOUBLE_EQ(measured.find("fraction").value(), 1.0 / 3);
    EXPECT_TRUE(measured.text.ends_with("; 1 of 3 examples (33.3%)")) << measured.text;
  }
  EXPECT_EQ(found, expected);
}

TEST(Translation, BitsPerByteExcludesTruncatedText) {
  const PairFiles text;
  const auto model = small_encoder_decoder();
  const auto bits_of = [&](const std::string& target) {
    OpenPairs files({.source = text.source,
                     .target = text.target,
                     .valid_source = "cat\n",
                     .valid_target = target});
    files.data.buckets.longest = 4;
    files.data.buckets.too_long = OverlongPolicy::truncate;
    return files.open()->validate(*model).value();
  };
  const Measurement whole = bits_of("katz\n"), cut = bits_of("katze und maus\n");
  EXPECT_DOUBLE_EQ(cut.find("bits_per_byte").value(), whole.find("bits_per_byte").value());
  EXPECT_DOUBLE_EQ(bits_of("katz\r\n").find("bits_per_byte").value(),
                   whole.find("bits_per_byte").value());
  EXPECT_EQ(cut.find("truncated"), 1);
  EXPECT_FALSE(whole.find("truncated").has_value());
  EXPECT_NE(cut.text.find("; 1 truncated to data.max_length = 4 tokens"), std::string::npos)
      << cut.text;
}

TEST(Translation, DecodingAddsMetrics) {
  const OpenPairs files;
  const auto model = small_encoder_decoder();
  const Measurement measured = files.open({}, 0, 2)->validate(*model).value();
  EXPECT_EQ(names_of(measured),
            (Names{"loss",
                   "perplexity",
                   "bits_per_byte",
                   "bleu",
                   "bleu_brevity_penalty",
                   "chrf",
                   "word_error_rate",
                   "word_substitutions",
                   "word_deletions",
                   "word_insertions",
                   "sequence_error_rate",
                   "exact_match"}));
  EXPECT_NE(measured.text.find(", BLEU 0.00, chrF "), std::string::npos) << measured.text;
}

TEST(Translation, ReturnsNothingWithoutValidationData) {
  OpenPairs files;
  files.data.validation = files.data.validation_target = ConfigPath();
  EXPECT_FALSE(files.open()->validate(*small_encoder_decoder()).has_value());
}

TEST(Translation, FingerprintCoversBothSides) {
  const auto of = [](const PairFiles& text) {
    const DataFingerprint found = OpenPairs(text).open()->identity();
    return std::pair(found.sample, found.hash);
  };
  const auto before = of({});
  EXPECT_EQ(of({}), before);
  PairFiles target;
  target.target[0] = 'E';
  EXPECT_NE(of(target).first, before.first);
  EXPECT_NE(of(target).second, before.second);
  PairFiles source;
  source.source[0] = 'A';
  EXPECT_NE(of(source), before);
  const PairFiles swapped = {.source = PairFiles().target, .target = PairFiles().source};
  EXPECT_NE(of(swapped), before);
}

TEST(Translation, OverviewReportsPairsAndSteps) {
  const OpenPairs files;
  const auto task = files.open();
  EXPECT_EQ(task->overview(), files.train.path() + ": 4 pairs, 2 steps in the first epoch");
  EXPECT_EQ(task->tokenizer().vocabulary(), 256);
}

TEST(Translation, EvaluateEqualsValidation) {
  const OpenPairs files;
  const auto model = small_encoder_decoder();
  const Measurement validation = files.open({}, 0, 3)->validate(*model).value();
  const Tokenizer bytes;
  const Measurement measured = task_kind("translation")
                                   .evaluate({.model = *model,
                                              .tokenizer = bytes,
                                              .labels = {},
                                              .data = files.data,
                                              .file = files.data.validation.parts.at(0).path,
                                              .target = files.data.validation_target,
                                              .decoding = {.beam = 1}});
  for (const MetricValue& metric : validation.metric_values)
    EXPECT_EQ(measured.find(metric.name), metric.value) << metric.name;
  EXPECT_EQ(
      message_of<ConfigurationError>([&] {
        task_kind("translation")
            .evaluate({.model = *model,
                       .tokenizer = bytes,
                       .labels = {},
                       .data = files.data,
                       .file = files.data.validation.parts.at(0).path,
                       .target = ConfigPath()});
      }),
      files.validation.path() + ": targets are missing; set --data-target together with --data");
}

// If all tokens take N steps, the mean is N and the curve is constant.
TEST(Translation, ReportsAdaptiveSteps) {
  const OpenPairs files;
  for (const double bias : {-30.0, 30.0}) {
    EncoderDecoderOptions options;
    options.recurrence.count = RecurrenceType::adaptive;
    options.recurrence.halting = {.steps = 3, .bias = bias};
    const Measurement measured = files.open()->validate(*small_encoder_decoder(options)).value();
    const double steps = bias < 0 ? 3 : 1;
    for (const std::string stack : {"encoder", "decoder"}) {
      EXPECT_EQ(measured.find(stack + "_act_steps_mean"), steps);
      EXPECT_EQ(measured.find(stack + "_act_steps_max"), steps);
    }
    ASSERT_EQ(measured.curves.size(), 2u);
    EXPECT_EQ(measured.curves[0].name, "encoder_act_steps");
    EXPECT_EQ(measured.curves[0].values, std::vector<double>(11, steps));
    EXPECT_EQ(measured.curves[1].name, "decoder_act_steps");
    EXPECT_EQ(measured.curves[1].values, std::vector<double>(18, steps));
    EXPECT_NE(measured.text.find(fmt::format("encoder_act_steps {0:.2f} (max {0})", steps)),
              std::string::npos)
        << measured.text;
  }
}

TEST(Translation, WritesBestResultOrScoredNBestList) {
  const auto model = small_encoder_decoder();
  const Tokenizer bytes;
  const DataOptions data;
  const std::vector<std::string> lines = {"ab", "", "c"};
  const auto written = [&](const TranslateOptions& decoding) {
    return task_kind("translation")
        .write({.model = *model,
                .tokenizer = bytes,
                .labels = {},
                .data = data,
                .lines = lines,
                .decoding = decoding,
                .place = [](std::size_t) { return "here"; }});
  };
  const auto found =
      testing::translated(*model, lines, {.beam = 2, .n_best = 2, .max_extra_length = 4});
  EXPECT_EQ(written({.beam = 2, .max_extra_length = 4}),
            (Names{found[0][0].text, "", found[2][0].text}));
  const auto several = written({.beam = 2, .n_best = 2, .max_extra_length = 4});
  ASSERT_EQ(several.size(), 5u);
  EXPECT_EQ(several[1], fmt::format("1\t{:.6f}\t{}", found[0][1].score, found[0][1].text));
  EXPECT_EQ(several[2], "2\t0.000000\t");
  EXPECT_EQ(several[3], fmt::format("3\t{:.6f}\t{}", found[2][0].score, found[2][0].text));
}

}  // namespace
}  // namespace longspan::translation_test
