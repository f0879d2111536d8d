// Lines from a non-autoregressive decoder.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/data/tokenization/special_tokens.h"
#include "framework/tasks/translate.h"
#include "tests/tasks/translation_testing.h"

namespace longspan::masked_search_test {
namespace {

using testing::format_results;
using testing::OpenPairs;
using testing::small_encoder_decoder;
using testing::translated;

const std::vector<std::string> lines = {
    "abc", "", "a longer line", "x", "yet another line of these", "abd", "q", ""};

EncoderDecoderOptions masked(NatObjective masking,
                             CrossAttentionMapping wiring = CrossAttentionMapping::last) {
  EncoderDecoderOptions options;
  options.decoder = EncoderDecoderOptions::Decoder::masked;
  options.masking.masking = masking;
  options.wiring = wiring;
  return options;
}

// The most likely n tokens for one line and their log probability, from one unpadded pass.
std::pair<std::vector<std::int64_t>, double> decode_once(const Model& model,
                                                         const std::string& line,
                                                         std::int64_t n) {
  const SpecialTokenIds special = sentence_ids({});
  const Device host = Device::cpu();
  const std::vector<std::int64_t> source = Tokenizer().encode(line, "line");
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(n), model.body().end().masked->mask);
  tokens.push_back(special.end);
  const auto of = [&](const std::vector<std::int64_t>& ids) {
    return Tensor::from<std::int64_t>(ids, {1, std::ssize(ids)}, host);
  };
  const auto length = [&](const std::vector<std::int64_t>& ids) {
    const std::int64_t count[] = {std::ssize(ids)};
    return Tensor::from<std::int64_t>(count, {1}, host);
  };
  const Tensor scores = model
                            .scores({.fields = {{"source", of(source)},
                                                {"source_length", length(source)},
                                                {"tokens", of(tokens)},
                                                {"length", length(tokens)}}},
                                    ForwardContext{})
                            .scores.value();
  std::vector<std::int64_t> words;
  double sum = 0;
  const auto width = static_cast<std::size_t>(scores.shape().width());
  for (std::size_t t = 0; t < static_cast<std::size_t>(n); ++t) {
    const auto row = scores.span<double>().subspan(t * width, width);
    std::size_t best = 0;
    for (std::size_t id = 0; id < width; ++id)
      if (row[id] > row[best] && id < 256 && id != '\n') best = id;
    double mass = 0;
    for (const double score : row) mass += std::exp(score - row[best]);
    sum -= std::log(mass);
    words.push_back(static_cast<std::int64_t>(best));
  }
  return {words, sum};
}

TEST(MaskedSearch, OneIterationPicksMostLikelyTokens) {
  const NoGradGuard unrecorded;
  for (const CrossAttentionMapping wiring :
       {CrossAttentionMapping::last, CrossAttentionMapping::full}) {
    const auto model = small_encoder_decoder(masked(NatObjective::random, wiring));
    for (const std::string& line : {lines[0], lines[2]}) {
      const std::vector<std::vector<std::int64_t>> source = {Tokenizer().encode(line, "line")};
      const std::vector<SearchInput> input = {{.longest = 40}};
      const auto found =
          masked_search(*model,
                        source,
                        input,
                        {.vocabulary = {.end = 257, .size = 258, .forbidden = {256, '\n'}},
                         .iterations = 1,
                         .lengths = 1})[0][0];
      const auto [words, log_probability] = decode_once(*model, line, std::ssize(found.tokens));
      EXPECT_EQ(found.tokens, words);
      EXPECT_NEAR(found.log_probability, log_probability, 1e-11);
      EXPECT_NEAR(found.score, log_probability / static_cast<double>(words.size()), 1e-11);
    }
  }
}

TEST(MaskedSearch, LinesAreIndependent) {
  for (const NatObjective masking : {NatObjective::random, NatObjective::refined}) {
    EncoderDecoderOptions made = masked(masking, CrossAttentionMapping::mix);
    made.masking.first = NatDecoderInput::source;
    const auto model = small_encoder_decoder(made);
    TranslateOptions options = {
        .n_best = 2, .max_extra_length = 40, .iterations = 4, .length_beam = 3};
    const auto found = translated(*model, lines, options);

    for (const std::int64_t batch_tokens : {1, 30, 60}) {
      options.batch_tokens = batch_tokens;
      EXPECT_EQ(format_results(translated(*model, lines, options)), format_results(found))
          << batch_tokens;
    }
  }
}

TEST(MaskedSearch, ValidationDecodesForEveryObjective) {
  const OpenPairs files;
  for (const NatObjective masking :
       {NatObjective::random, NatObjective::all, NatObjective::refined}) {
    const auto model = small_encoder_decoder(masked(masking));
    const Measurement measured = files.open({}, 0, 2)->validate(*model).value();
    EXPECT_TRUE(std::isfinite(measured.find("loss").value()));
    EXPECT_TRUE(measured.find("chrf").has_value());
  }
}

TEST(MaskedSearch, RejectsOptionsThatTheDecoderLacks) {
  const auto error_for = [&](const Model& model, const TranslateOptions& options) {
    return message_of<ConfigurationError>([&] { translated(model, {""}, options); });
  };
  const auto model = small_encoder_decoder(masked(NatObjective::random));
  EXPECT_EQ(error_for(*model, {.iterations = 0}), "iterations: expected at least 1, found 0");
  EXPECT_EQ(error_for(*model, {.n_best = 3, .length_beam = 2}),
            "n-best: expected 1 to the length beam of 2, found 3");
  EXPECT_EQ(error_for(*model, {.alpha = 1}),
            "length penalty requires model.decoder_type: autoregressive, found non_autoregressive");
  EXPECT_EQ(error_for(*model, {.sampling = SamplingOptions()}),
            "sampling requires model.decoder_type: autoregressive, found non_autoregressive");
  EXPECT_EQ(error_for(*small_encoder_decoder(), {.iterations = 4}),
            "iterations and length beam require model.decoder_type: non_autoregressive, found "
            "autoregressive");
}

}  // namespace
}  // namespace longspan::masked_search_test
