#include <gtest/gtest.h>

#include "framework/core/format.h"
#include "framework/training_loop/memory_report.h"
#include "models/decoder.h"

namespace longspan::memory_advice_test {
namespace {

constexpr std::int64_t vocabulary = 256;

TEST(MemoryAdvice, NamesConfigurationKeysThatReduceMemory) {
  RunConfig settings;
  settings.data.batch = 4;
  settings.data.segment = 512;
  DecoderOptions options;
  options.common = {.layers = 2, .width = 32, .heads = 4};
  settings.body = decoder_body(options);
  // Accepts only one key.
  const Reconfigure reconfigure = [&](const std::vector<std::string>& keys) {
    const auto result = std::make_shared<RunConfig>(settings);
    for (const std::string& key : keys) {
      if (key != "training.gradient_accumulation_steps=4")
        throw ConfigurationError("{} is not known", key);
      result->training.accumulation = 4;
    }
    return result;
  };
  const StepPlan plan = plan_step(settings, {}, vocabulary, Processor::cpu);
  const double less =
      plan_step(
          *reconfigure({"training.gradient_accumulation_steps=4"}), {}, vocabulary, Processor::cpu)
          .bytes();
  ASSERT_LT(less, plan.bytes());
  const std::string saving =
      "with training.gradient_accumulation_steps=4 it requires " + format_bytes(less);
  EXPECT_EQ(memory_advice(plan, less, vocabulary, reconfigure), saving);
  const std::string rest =
      "use more machines, or a smaller data.seq_length, data.global_batch_size or "
      "model.hidden_size";
  EXPECT_EQ(memory_advice(plan, less - 1, vocabulary, reconfigure),
            saving + ", the minimum; " + rest);
  const Reconfigure nothing = [&](const std::vector<std::string>& keys) {
    if (!keys.empty()) throw ConfigurationError("no key is known");
    return std::make_shared<RunConfig>(settings);
  };
  EXPECT_EQ(memory_advice(plan, less, vocabulary, nothing), rest);
  EXPECT_EQ(needs(plan).find("a rank requires " + format_bytes(plan.bytes()) + " (weights "), 0u);
}

}  // namespace
}  // namespace longspan::memory_advice_test
