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

}  // namespace
}  // namespace longspan::plan_test
