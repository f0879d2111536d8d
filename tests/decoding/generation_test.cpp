#include "framework/decoding/generation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "framework/nn/attention/kv_cache.h"
#include "tests/support/gradient_check.h"
#include "tests/support/small_models.h"

namespace longspan::generation_test {
namespace {

using testing::small_decoder;
using testing::small_setting;
using testing::small_transformer_xl;

const std::vector<std::int64_t> prompt = {40, 2, 77, 5, 200, 31, 8, 9, 120, 64, 13};

std::vector<std::int64_t> tokens_of(const std::vector<Candidate>& list) {
  std::vector<std::int64_t> tokens;
  for (const Candidate& candidate : list) tokens.push_back(candidate.token);
  return tokens;
}

std::vector<double> logs(std::vector<double> probabilities) {
  for (double& value : probabilities) value = std::log(value);
  return probabilities;
}

using Tokens = std::vector<std::int64_t>;

TEST(Candidates, ReturnsSortedProbabilitiesThatSumToOne) {
  const auto list = candidates(logs({0.1, 0.4, 0.2, 0.3}), {});
  EXPECT_EQ(tokens_of(list), (Tokens{1, 3, 2, 0}));
  const double expected[] = {0.4, 0.3, 0.2, 0.1};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(list[i].probability, expected[i], 1e-15);
}

TEST(Candidates, TemperatureSharpensAndFlattens) {
  const auto logits = logs({0.2, 0.8});
  // p^(1/T), normalized.
  EXPECT_NEAR(candidates(logits, {.temperature = 0.5})[0].probability, 0.64 / 0.68, 1e-15);
  EXPECT_NEAR(candidates(logits, {.temperature = 2})[0].probability,
              std::sqrt(0.8) / (std::sqrt(0.8) + std::sqrt(0.2)),
              1e-15);
}

TEST(Candidates, TemperatureZeroSelectsFirstMaximum) {
  const auto list = candidates(std::vector<double>{1, 5, 5, 2}, {.temperature = 0, .top_k = 3});
  EXPECT_EQ(tokens_of(list), (Tokens{1}));
  EXPECT_EQ(list[0].probability, 1);
}

TEST(Candidates, TopKKeepsMostProbable) {
  const auto list = candidates(logs({0.1, 0.4, 0.2, 0.3}), {.top_k = 2});
  EXPECT_EQ(tokens_of(list), (Tokens{1, 3}));
  EXPECT_NEAR(list[0].probability, 4.0 / 7, 1e-15);
  EXPECT_EQ(candidates(logs({0.5, 0.5}), {.top_k = 9}).size(), 2u);
}

TEST(Candidates, TopPKeepsSmallestSufficientSet) {
  const auto logits = logs({0.1, 0.4, 0.2, 0.3});
  EXPECT_EQ(tokens_of(candidates(logits, {.top_p = 0.39})), (Tokens{1}));
  EXPECT_EQ(tokens_of(candidates(logits, {.top_p = 0.41})), (Tokens{1, 3}));
  EXPECT_EQ(tokens_of(candidates(logits, {.top_p = 0.69})), (Tokens{1, 3}));
  EXPECT_EQ(tokens_of(candidates(logits, {.top_p = 0.71})), (Tokens{1, 3, 2}));
  EXPECT_EQ(tokens_of(candidates(logits, {.top_p = 1e-9})), (Tokens{1}));
  EXPECT_NEAR(candidates(logits, {.top_p = 0.69})[0].probability, 4.0 / 7, 1e-15);
  // top-k leaves 4/7 and 3/7.
  EXPECT_EQ(tokens_of(candidates(logits, {.top_k = 2, .top_p = 0.5})), (Tokens{1}));
}

TEST(Candidates, DoesNotChooseImpossibleTokens) {
  const double never = -std::numeric_limits<double>::infinity();
  const auto list = candidates(std::vector<double>{never, 0, never}, {});
  EXPECT_EQ(choose(list, 0.9999999), 1);
  EXPECT_THROW(candidates(std::vector<double>{0, std::nan("")}, {}), Failure);
}

TEST(Candidates, ChoiceFollowsCumulativeProbabilities) {
  const std::vector<Candidate> list = {{7, 0.5}, {3, 0.25}, {9, 0.25}};
  EXPECT_EQ(choose(list, 0), 7);
  EXPECT_EQ(choose(list, 0.499), 7);
  EXPECT_EQ(choose(list, 0.5), 3);
  EXPECT_EQ(choose(list, 0.75), 9);
  EXPECT_EQ(choose(std::vector<Candidate>{{7, 0.3}, {3, 0.3}}, 0.9), 3);
}

// Returns the logits after `read`, computed in one pass without memory.
std::vector<double> logits_after(const Model& model, const Tokens& read) {
  const NoGradGuard unrecorded;
  const Shape shape{1, static_cast<std::int64_t>(read.size())};
  const Tensor tokens = Tensor::from<std::int64_t>(read, shape, model.parameters().device());
  const Tensor logits =
      model.scores({.fields = {{"tokens", tokens}}}, ForwardContext{}).scores.value();
  const auto last = logits.span<double>().last(256);
  return {last.begin(), last.end()};
}

Tokens greedy_in_whole_passes(const Model& model, Tokens read, std::size_t window, int count) {
  Tokens result;
  for (int i = 0; i < count; ++i) {
    if (read.size() > window) read.erase(read.begin(), read.end() - static_cast<long>(window));
    const std::vector<double> logits = logits_after(model, read);
    result.push_back(std::ranges::max_element(logits) - logits.begin());
    read.push_back(result.back());
  }
  return result;
}

GenerationOptions greedy(std::int64_t tokens) {
  return {.tokens = tokens, .sampling = {.temperature = 0}};
}

TEST(Generation, FullMemoryMatchesFullPasses) {
  const auto model = make_transformer_xl(small_transformer_xl(2, 4), small_setting());
  GenerationOptions options = greedy(20);
  options.memory = 64;
  const Tokens expected = greedy_in_whole_passes(*model, prompt, 1000, 20);
  for (const std::int64_t segment : {1, 4, 11, 50}) {
    options.segment = segment;
    EXPECT_EQ(generate(*model, prompt, options).front(), expected) << "segments of " << segment;
  }
}

TEST(Generation, ReadsLastWindowWithoutMemory) {
  const auto decoder = make_decoder(small_decoder(2), small_setting());
  GenerationOptions options = greedy(20);
  options.segment = 6;
  EXPECT_EQ(generate(*decoder, prompt, options).front(),
            greedy_in_whole_passes(*decoder, prompt, 6, 20));
  const auto forgetful = make_transformer_xl(small_transformer_xl(2, 4), small_setting());
  options.memory = 0;
  EXPECT_EQ(generate(*forgetful, prompt, options).front(),
            greedy_in_whole_passes(*forgetful, prompt, 6, 20));
}

// Prompts read through a callback may exceed the host memory.
TEST(Generation, ReadsPromptOnceInSegmentsOrOnlyItsEnd) {
  const auto count = static_cast<std::int64_t>(prompt.size());
  std::vector<std::pair<std::int64_t, std::size_t>> asked;
  const Prompt pieces = {count, [&](std::int64_t begin, std::span<std::int64_t> out) {
                           asked.emplace_back(begin, out.size());
                           std::copy_n(prompt.begin() + begin, out.size(), out.begin());
                         }};
  using Asked = decltype(asked);
  GenerationOptions options = greedy(6);
  options.segment = 4;
  const auto remembering = make_transformer_xl(small_transformer_xl(2, 4), small_setting());
  EXPECT_EQ(generate(*remembering, pieces, options), generate(*remembering, prompt, options));
  EXPECT_EQ(asked, (Asked{{0, 4}, {4, 4}, {8, 3}}));
  asked.clear();
  const auto decoder = make_decoder(small_decoder(2), small_setting());
  EXPECT_EQ(generate(*decoder, pieces, options), generate(*decoder, prompt, options));
  EXPECT_EQ(asked, (Asked{{count - 4, 4}}));
}

// With memory.bptt_chunk_length the context is the whole text, whatever the window.
TEST(Generation, ContinuesFromStatesOfChunks) {
  ModelBuildOptions setting = small_setting();
  setting.memory.bptt_chunk_length = 4;
  GenerationOptions asked = greedy(20);
  asked.samples = 2;
  asked.segment = 6;
  for (const std::vector<std::string>& kinds :
       std::vector<std::vector<std::string>>{{"full"},
                                             {"sliding_window", "linear"},
                                             {"rfa"},
                                             {"retention", "gla"},
                                             {"delta_net", "gated_delta_net"},
                                             {"kimi_delta_attention"},
                                             {"mamba2"},
                                             {"rwkv7"},
                                             {"aft_simple"}}) {
    DecoderOptions options = small_decoder(2);
    options.common.attention.mamba2 = {.dim = 4, .state = 3};
    options.common.attention.kinds = kinds;
    options.common.attention.sliding_window = {3};
    const auto model = make_decoder(options, setting);
    const Tokens expected = greedy_in_whole_passes(*model, prompt, 1000, 20);
    for (const Tokens& found : generate(*model, prompt, asked))
      EXPECT_EQ(found, expected) << kinds.front();
    Tokens read;
    const Prompt pieces = {std::ssize(prompt),
                           [&](std::int64_t begin, std::span<std::int64_t> out) {
                             read.push_back(std::ssize(out));
                             std::copy_n(prompt.begin() + begin, out.size(), out.begin());
                           }};
    generate(*model, pieces, asked);
    EXPECT_EQ(read, (Tokens{4, 4, 3}));
  }
}

// Reads all of the text again for each token, as evaluation does.
Tokens greedy_in_segments(const Model& model, Tokens read, std::int64_t segment, int count) {
  const NoGradGuard unrecorded;
  Tokens result;
  for (int i = 0; i < count; ++i) {
    RecurrentState carried;
    std::vector<double> logits;
    for (std::int64_t begin = 0; begin < std::ssize(read); begin += segment) {
      const std::int64_t end = std::min(begin + segment, std::ssize(read));
      const ModelInput input = {
          .fields = {{"tokens",
                      Tensor::from<std::int64_t>({read.begin() + begin, read.begin() + end},
                                                 {1, end - begin},
                                                 model.parameters().device())}},
          .carried = carried};
      Scores found = model.scores(input, {.kv_cache = model.sequence_cache(input, false)});
      carried = std::move(found.carried);
      const auto last = found.scores.value().span<double>().last(256);
      logits.assign(last.begin(), last.end());
    }
    result.push_back(std::ranges::max_element(logits) - logits.begin());
    read.push_back(result.back());
  }
  return result;
}

// Other layers attend within the segment, whose positions start at 0.
TEST(Generation, StatefulModelContinuesOverSegments) {
  for (const PositionEmbeddingType positions : {PositionEmbeddingType::sinusoidal,
                                                PositionEmbeddingType::learned,
                                                PositionEmbeddingType::rotary})
    for (const std::vector<std::string>& kinds :
         std::vector<std::vector<std::string>>{{"gated_delta_net", "full"},
                                               {"mamba2", "sliding_window"},
                                               {"retention", "gmlp"},
                                               {"delta_net", "linear"},
                                               {"gla", "aft_simple"},
                                               {"rwkv7"}}) {
      if (positions == PositionEmbeddingType::rotary && kinds.back() == "linear") continue;
      DecoderOptions options = small_decoder(2);
      options.stateful = true;
      options.positions.kind = positions;
      options.common.attention.mamba2 = {.dim = 4, .state = 3};
      options.common.attention.kinds = kinds;
      options.common.attention.sliding_window = {3};
      ModelBuildOptions setting = small_setting();
      setting.segment = 5;
      // With small weights, the next token would hardly depend on the text.
      const auto make = [&] {
        auto result = make_decoder(options, setting);
        for (std::uint64_t i = 0; const auto& parameter : result->parameters().trained())
          parameter->master.copy_from(testing::random_tensor(parameter->master.shape(), ++i));
        result->parameters().refresh_compute();
        return result;
      };
      const auto model = make();
      setting.memory.bptt_chunk_length = 3;
      const auto in_chunks = make();
      GenerationOptions asked = greedy(12);
      asked.samples = 2;
      asked.segment = 5;
      const Tokens expected = greedy_in_segments(*model, prompt, 5, 12);
      EXPECT_NE(expected,
                greedy_in_whole_passes(*model, {prompt.begin() + 10, prompt.end()}, 5, 12))
          << kinds.front();
      for (const Tokens& found : generate(*model, prompt, asked))
        EXPECT_EQ(found, expected) << kinds.front();
      for (const Tokens& found : generate(*in_chunks, prompt, asked))
        EXPECT_EQ(found, expected) << kinds.front() << " in chunks";
    }
}

TEST(Generation, ReadsPromptOfTransformerXlInChunks) {
  ModelBuildOptions setting = small_setting();
  const TransformerXlOptions options = small_transformer_xl(2, 4);
  const auto whole = make_transformer_xl(options, setting);
  setting.memory.bptt_chunk_length = 3;
  const auto chunked = make_transformer_xl(options, setting);
  GenerationOptions asked = greedy(20);
  for (const std::int64_t segment : {2, 7, 11}) {
    asked.segment = segment;
    EXPECT_EQ(generate(*chunked, prompt, asked), generate(*whole, prompt, asked)) << segment;
  }
}

TEST(Generation, LearnedPositionsLimitWindow) {
  DecoderOptions learned = small_decoder(2);
  learned.positions.kind = PositionEmbeddingType::learned;
  learned.positions.longest = 9;
  const auto model = make_decoder(learned, small_setting());
  EXPECT_EQ(generate(*model, prompt, greedy(12)).front(),
            greedy_in_whole_passes(*model, prompt, 9, 12));
}

// The KV cache is valid until the window moves.
TEST(Generation, KVCacheMatchesRecomputedTokens) {
  for (const auto positions : {PositionEmbeddingType::sinusoidal,
                               PositionEmbeddingType::learned,
                               PositionEmbeddingType::relative,
                               PositionEmbeddingType::relative_key_query,
                               PositionEmbeddingType::relative_bias,
                               PositionEmbeddingType::alibi}) {
    DecoderOptions options = small_decoder(2);
    options.positions = {
        .kind = positions, .longest = 16, .relative_max_distance = 5, .buckets = 8};
    const auto model = make_decoder(options, small_setting());
    GenerationOptions asked = greedy(14);  // after a prompt of 11
    asked.samples = 2;
    for (const std::int64_t window : {11, 13, 16, 40}) {
      asked.segment = window;
      const bool is_learned = positions == PositionEmbeddingType::learned;
      const Tokens expected = greedy_in_whole_passes(
          *model, prompt, is_learned ? 16 : static_cast<std::size_t>(window), 14);
      for (const Tokens& found : generate(*model, prompt, asked))
        EXPECT_EQ(found, expected) << "a window of " << window;
    }
  }
}

TEST(Generation, KVCacheMatchesRecomputedLogits) {
  const NoGradGuard unrecorded;
  for (const char* kind : {"full",
                           "sliding_window",
                           "strided",
                           "retention",
                           "gla",
                           "delta_net",
                           "gated_delta_net",
                           "kimi_delta_attention",
                           "mamba2",
                           "rwkv7",
                           "aft_full",
                           "aft_local",
                           "aft_simple",
                           "gmlp"}) {
    DecoderOptions options = small_decoder(2);
    options.common.attention.mamba2 = {.dim = 4, .state = 3, .step_limit = {0.01, 0.05}};
    options.common.attention.kinds = {kind};
    options.common.attention.sliding_window = {4};
    options.common.attention.stride = 4;
    options.common.attention.mixing = {
        .longest = 16, .window = 3, .gate_heads = 2, .gate_attention = 3};
    options.common.attention.delta_rule = {.key_heads = 2, .value_heads = 4, .value_dim = 7};
    options.common.output_gate = true;
    const auto model = make_decoder(options, small_setting());
    const auto cache = std::make_shared<KVCache>();
    const std::span<const std::int64_t> all(prompt);
    for (const std::size_t begin : {0, 5, 6, 7, 8}) {
      const std::size_t end = begin == 0 ? 5 : begin == 8 ? 11 : begin + 1;
      const Tensor piece = Tensor::from(all.subspan(begin, end - begin),
                                        {1, static_cast<std::int64_t>(end - begin)},
                                        model->parameters().device());
      const Tensor found = model
                               ->scores({.fields = {{"tokens", piece}}, .only_last = true},
                                        ForwardContext{.kv_cache = cache})
                               .scores.value();
      const auto expected = logits_after(*model, {prompt.begin(), prompt.begin() + end});
      for (std::size_t id = 0; id < expected.size(); ++id)
        EXPECT_NEAR(found.span<double>()[id], expected[id], 1e-12) << kind << ", " << end;
    }
  }
}

TEST(Generation, StopsEachSampleAtEndToken) {
  for (const std::int64_t memory : {0, 12}) {
    const auto model = make_transformer_xl(small_transformer_xl(2, 12), small_setting());
    GenerationOptions options = {.tokens = 30, .samples = 3, .seed = 5, .memory = memory};
    const auto whole = generate(*model, prompt, options);
    options.ends = {whole[0][7], whole[1][20]};
    std::vector<Tokens> expected;
    for (const Tokens& sample : whole) {
      const auto end = std::ranges::find_first_of(sample, options.ends);
      expected.emplace_back(sample.begin(), end);
    }
    ASSERT_LE(expected[0].size(), 7u);
    ASSERT_LE(expected[1].size(), 20u);
    std::vector<Tokens> reported(3);
    const auto found = generate(*model, prompt, options, [&](std::int64_t sample, std::int64_t id) {
      reported[static_cast<std::size_t>(sample)].push_back(id);
    });
    EXPECT_EQ(found, expected);
    EXPECT_EQ(reported, expected);
  }
}

TEST(Generation, DependsOnlyOnSeed) {
  const auto model = make_transformer_xl(small_transformer_xl(2, 12), small_setting());
  const GenerationOptions options = {.tokens = 30, .samples = 3, .seed = 5};
  const auto samples = generate(*model, prompt, options);
  ASSERT_EQ(samples.size(), 3u);
  EXPECT_EQ(generate(*model, prompt, options), samples);
  EXPECT_NE(samples[0], samples[1]);
  EXPECT_NE(samples[1], samples[2]);
  // A sample depends neither on the number of samples nor on the maximum length.
  EXPECT_EQ(generate(*model, prompt, {.tokens = 30, .samples = 1, .seed = 5}).front(), samples[0]);
  const auto shorter = generate(*model, prompt, {.tokens = 10, .samples = 2, .seed = 5});
  EXPECT_TRUE(std::equal(shorter[1].begin(), shorter[1].end(), samples[1].begin()));
  EXPECT_NE(generate(*model, prompt, {.tokens = 30, .seed = 6}).front(), samples[0]);
}

TEST(Generation, SamplesFollowDistribution) {
  // The first token of many samples against the probabilities: chi-squared with 4 degrees of
  // freedom exceeds 33 once in a million.
  const auto model = make_transformer_xl(small_transformer_xl(1, 12), small_setting());
  const std::int64_t count = 4000;
  GenerationOptions options = {.tokens = 1, .samples = count, .sampling = {.top_k = 5}};
  const auto list = candidates(logits_after(*model, prompt), {.top_k = 5});
  const auto samples = generate(*model, prompt, options);
  double statistic = 0;
  std::int64_t found = 0;
  for (const Candidate& candidate : list) {
    const auto seen = std::ranges::count(samples, Tokens{candidate.token});
    const double expected = candidate.probability * static_cast<double>(count);
    statistic += std::pow(static_cast<double>(seen) - expected, 2) / expected;
    found += seen;
  }
  EXPECT_EQ(found, count);
  EXPECT_LT(statistic, 33);
}

TEST(Generation, SamplesOnlyFromTokenizerVocabulary) {
  // The embedding may have more rows than the tokenizer's vocabulary.
  const auto model = make_transformer_xl(small_transformer_xl(1, 12), small_setting());
  GenerationOptions options = {.tokens = 200, .sampling = {.temperature = 1000}, .vocabulary = 20};
  const auto tokens = generate(*model, {prompt.data() + 1, 1}, options).front();
  EXPECT_LT(std::ranges::max(tokens), 20);
}

TEST(Generation, ReportsEachToken) {
  const auto model = make_transformer_xl(small_transformer_xl(1, 12), small_setting());
  std::vector<Tokens> reported(2);
  const auto samples = generate(
      *model, prompt, {.tokens = 5, .samples = 2}, [&](std::int64_t sample, std::int64_t token) {
        reported[static_cast<std::size_t>(sample)].push_back(token);
      });
  EXPECT_EQ(reported, samples);
}

TEST(Generation, RejectsInvalidOptions) {
  const auto model = make_decoder(small_decoder(1), small_setting());
  const auto sentence = [&](const GenerationOptions& options) {
    return message_of<ConfigurationError>([&] { generate(*model, prompt, options); });
  };
  EXPECT_EQ(sentence({.sampling = {.temperature = -1}}),
            "temperature: expected at least 0, found -1");
  EXPECT_EQ(sentence({.sampling = {.top_k = -2}}),
            "top-k: expected at least 1, or 0 for no limit, "
            "found -2");
  EXPECT_EQ(sentence({.sampling = {.top_p = 0}}),
            "top-p: expected more than 0 and at most 1, "
            "found 0");
  EXPECT_EQ(sentence({.sampling = {.top_p = 1.5}}),
            "top-p: expected more than 0 and at most 1, "
            "found 1.5");
  EXPECT_EQ(sentence({.memory = 3}), "the model does not support mem_len > 0, found 3");
  EXPECT_EQ(message_of<ConfigurationError>(
                [&] { generate(*model, std::span<const std::int64_t>(), {}); }),
            "the prompt is empty; give at least 1 token");
}

TEST(Utf8Stream, BuffersIncompleteCharacters) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xE6"), "a");
  EXPECT_EQ(stream.push("\xBC"), "");
  EXPECT_EQ(stream.push("\xA2"
                        "b"),
            "漢b");
  EXPECT_EQ(stream.push("\xC3"), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, ReplacesInvalidBytes) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xE6\xBC"
                        "a"),
            "\uFFFDa");
  EXPECT_EQ(stream.push("\xFF"
                        "b\x80"),
            "\uFFFDb\uFFFD");
  // The second byte starts a new character.
  EXPECT_EQ(stream.push("\xE6\xC3\xA9"), "\uFFFDé");
}

}  // namespace
}  // namespace longspan::generation_test
