#include "framework/planning/plan.h"

#include <gtest/gtest.h>

#include <ctime>

#include "models/decoder.h"
#include "tests/support/sanitizers.h"

namespace longspan::plan_test {
namespace {

constexpr std::int64_t vocabulary = 256;

RunConfig settings_of(std::int64_t batch, std::int64_t segment, const ModelOptions& common) {
  RunConfig settings;
  settings.data.batch = batch;
  settings.data.segment = segment;
  DecoderOptions options;
  options.common = common;
  settings.body = decoder_body(options);
  return settings;
}

// Context ranks hold pieces from both ends of a causal sequence, so each has equal work in any
// number of ring steps.
TEST(Plan, ContextRanksShareWorkEvenly) {
  const RunConfig settings = settings_of(2, 4096, {.layers = 2, .width = 32, .heads = 4});
  const StepPlan alone = plan_step(settings, {}, vocabulary, Processor::cpu);
  for (const int context : {2, 4, 16, 64}) {
    const StepPlan plan = plan_step(settings, {.context = context}, vocabulary, Processor::cpu);
    EXPECT_NEAR(plan.flops * context / alone.flops, 1, 1e-9) << context;
  }
}

// CPU seconds of planning for `ranks` ranks, on one core.
double seconds_for(const RunConfig& settings, int ranks, std::size_t& found) {
  const std::clock_t begin = std::clock();
  found = plan_layouts(settings, ranks, known_gpus().front(), vocabulary).fitting.size();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

TEST(Plan, PlansFor4096RanksWithinOneSecond) {
  if (testing::sanitized) GTEST_SKIP() << "sanitizers take most of the time";
  // A large model, and a sequence of a million tokens with local and strided attention.
  const RunConfig large = settings_of(512, 8192, {.layers = 24, .width = 2048, .heads = 16});
  ModelOptions local = {.layers = 4,
                        .width = 256,
                        .heads = 4,
                        .norm = NormPosition::pre,
                        .residual = ResidualKind::reversible};
  local.attention.kinds = {"sliding_window", "strided"};
  local.attention.sliding_window = {256};
  local.attention.stride = 4096;
  const RunConfig longest = settings_of(1, 1 << 20, local);
  for (const RunConfig* settings : {&large, &longest}) {
    std::size_t found = 0;
    EXPECT_LT(seconds_for(*settings, 4096, found), 1);
    EXPECT_GT(found, 0u);
  }
}

ModelOptions local_and_linear() {
  ModelOptions options = {.layers = 4,
                          .width = 256,
                          .heads = 4,
                          .norm = NormPosition::pre,
                          .residual = ResidualKind::reversible};
  options.attention.kinds = {"sliding_window", "linear"};
  options.attention.sliding_window = {256};
  return options;
}

RunConfig chunked(std::int64_t chunks, std::int64_t length, const ModelOptions& options) {
  RunConfig settings = settings_of(1, chunks * length, options);
  settings.memory.bptt_chunk_length = length;
  return settings;
}

TEST(Plan, ExtrapolatesSequencesOfManyChunks) {
  ModelOptions with_full = local_and_linear();
  with_full.attention.kinds.push_back("full");
  ModelOptions with_recurrences = local_and_linear();
  with_recurrences.attention.kinds = {"gated_delta_net", "retention"};
  with_recurrences.attention.delta_rule = {
      .key_heads = 4, .value_heads = 8, .key_dim = 32, .value_dim = 48};
  for (const ModelOptions& options : {local_and_linear(), with_full, with_recurrences}) {
    const ChunkedPlans plans([&](std::int64_t chunks) {
      return plan_step(chunked(chunks, 512, options), {}, vocabulary, Processor::cpu);
    });
    EXPECT_TRUE(plans.is_confirmed());
    for (const std::int64_t chunks : {40, 200}) {
      const StepPlan exact =
          plan_every_chunk(chunked(chunks, 512, options), {}, vocabulary, Processor::cpu);
      const StepPlan found = plans.at(static_cast<double>(chunks));
      EXPECT_NEAR(found.bytes() / exact.bytes(), 1, 0.03) << chunks;
      EXPECT_NEAR(found.flops / exact.flops, 1, 1e-3) << chunks;
      EXPECT_NEAR(found.touched / exact.touched, 1, 0.02) << chunks;
      EXPECT_EQ(found.tokens, exact.tokens);
    }
  }
}

// 10 million tokens in 1280 chunks.
TEST(Plan, PlansTenMillionTokensWithinOneSecond) {
  if (testing::sanitized) GTEST_SKIP() << "sanitizers take most of the time";
  const std::clock_t begin = std::clock();
  const StepPlan plan =
      plan_step(chunked(1280, 8192, local_and_linear()), {}, vocabulary, Processor::cpu);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 1);
  EXPECT_EQ(plan.tokens, 10485760);
  EXPECT_GT(plan.bytes(), 2e9);
  EXPECT_LT(plan.bytes(), 3e9);
}

// The keys that these functions set.
Reconfigure reconfiguration(const RunConfig& settings) {
  return [settings](const std::vector<std::string>& keys) {
    auto changed = std::make_shared<RunConfig>(settings);
    for (const std::string& key : keys) {
      const std::string value = key.substr(key.find('=') + 1);
      const auto is = [&](std::string_view name) { return key.starts_with(name); };
      if (is("data.seq_length"))
        changed->data.segment = std::stoll(value);
      else if (is("memory.bptt_chunk_length") && value == "none")
        changed->memory.bptt_chunk_length.reset();
      else if (is("memory.bptt_chunk_length"))
        changed->memory.bptt_chunk_length = std::stoll(value);
      else
        throw ConfigurationError("{} is not changed here", key);
    }
    return changed;
  };
}

TEST(Plan, FindsLongestSequenceThatFits) {
  const RunConfig settings = settings_of(1, 4096, local_and_linear());
  const StepPlan plan = plan_step(settings, {}, vocabulary, Processor::cpu);
  constexpr double memory = 1e9;
  const Reconfigure reconfigure = reconfiguration(settings);
  const auto found = longest_sequences(reconfigure, plan, memory, vocabulary);
  ASSERT_EQ(found.size(), 2u);
  for (const LongestSequence& longest : found) {
    std::vector<std::string> keys = longest.keys;
    keys.push_back(fmt::format("data.seq_length={}", longest.tokens));
    EXPECT_LE(plan_step(*reconfigure(keys), {}, vocabulary, Processor::cpu).bytes(), memory);
    keys.back() = fmt::format("data.seq_length={}", longest.tokens * 21 / 20);
    EXPECT_GT(plan_step(*reconfigure(keys), {}, vocabulary, Processor::cpu).bytes(), memory);
  }
  EXPECT_GT(found[1].tokens, 20 * found[0].tokens);
}

TEST(Plan, SuggestsLongestChunkThatFits) {
  const RunConfig settings = settings_of(1, 1 << 18, local_and_linear());
  const StepPlan plan = plan_step(settings, {}, vocabulary, Processor::cpu);
  const Reconfigure reconfigure = reconfiguration(settings);
  for (const double memory : {1e9, 3e8}) {
    const std::vector<MemorySaving> savings = plan_savings(reconfigure, plan, memory, vocabulary);
    ASSERT_EQ(savings.size(), 1u);
    EXPECT_LE(savings[0].plan.bytes(), memory);
    const std::string& key = savings[0].keys.at(0);
    const std::int64_t length = std::stoll(key.substr(key.find('=') + 1));
    const auto longer = bptt_chunk_keys(settings, 2 * length);
    EXPECT_GT(plan_step(*reconfigure(longer), {}, vocabulary, Processor::cpu).bytes(), memory);
  }
}

}  // namespace
}  // namespace longspan::plan_test
