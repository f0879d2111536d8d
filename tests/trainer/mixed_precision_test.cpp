// Training runs in narrow types, compared with the same run in f32.
#include <cmath>

#include "framework/trainer/trainer.h"
#include "tests/models/model_testing.h"

namespace longspan::mixed_precision_test {
namespace {

constexpr std::int64_t streams = 4;
constexpr std::int64_t segment = 12;
constexpr int steps = 60;

// Ids that follow a learnable rule, with random exceptions.
Tensor text_of(int step) {
  const Tensor text = testing::random_ids(streams, segment + 1, static_cast<std::uint64_t>(step));
  std::int64_t* const ids = text.data<std::int64_t>();
  for (std::int64_t i = 1; i < text.elements(); ++i)
    if (ids[i] != 0) ids[i] = (3 * ids[i - 1] + 1) % testing::vocabulary;
  return text;
}

Batch batch_of(int step) { return testing::batch_of_rows(text_of(step)); }

struct Trained {
  double first_loss = 0;
  double last_losses = 0;  // mean of the last ten
  std::int64_t skipped = 0;
};

Trained train(DType compute) {
  TransformerXlOptions options;
  options.common = testing::tiny_options();
  options.common.width = 16;
  options.common.dropout = options.common.attention_dropout = 0.1;
  options.memory = 6;
  ModelBuildOptions setting = testing::tiny_setting(segment);
  setting.compute = compute;
  TrainingOptions training;
  training.learning_rate = 0.01;
  training.steps = steps;
  // The loss scale grows during the run.
  Trainer trainer(make_transformer_xl(options, setting),
                  training,
                  Random(1),
                  {.compute = compute, .loss_scale = {.growth_interval = 20}});
  Trained result;
  for (int step = 0; step < steps; ++step) {
    const double loss = trainer.step(batch_of(step)).loss;
    if (step == 0) result.first_loss = loss;
    if (step >= steps - 10) result.last_losses += loss / 10;
  }
  result.skipped = trainer.skipped();
  return result;
}

TEST(MixedPrecision, LossMatchesFloat32) {
  const Trained wide = train(DType::f32);
  EXPECT_LT(wide.last_losses, 0.6 * wide.first_loss) << "it learns";
  EXPECT_EQ(wide.skipped, 0);
  const Trained f16 = train(DType::f16);
  EXPECT_NEAR(f16.last_losses, wide.last_losses, 0.01 * wide.last_losses);
  EXPECT_LT(f16.skipped, 5);
  const Trained bf16 = train(DType::bf16);
  EXPECT_NEAR(bf16.last_losses, wide.last_losses, 0.03 * wide.last_losses);
  EXPECT_EQ(bf16.skipped, 0);
}

TEST(MixedPrecision, SkippedStepStillUpdatesMemory) {
  TransformerXlOptions options;
  options.common = testing::tiny_options();
  options.memory = 6;
  ModelBuildOptions setting = testing::tiny_setting(segment);
  setting.compute = DType::f16;
  Trainer trainer(make_transformer_xl(options, setting),
                  TrainingOptions{},
                  Random(1),
                  {.compute = DType::f16, .loss_scale = {.initial = 0x1p32}});
  const StepResult result = trainer.step(batch_of(0));
  EXPECT_TRUE(result.skipped);
  EXPECT_TRUE(std::isfinite(result.loss));
  EXPECT_EQ(trainer.recurrent_state_length(), 6);
}

// Without a loss scale gradients underflow f16 at this number of tokens.
TEST(MixedPrecision, LossScalePreventsUnderflow) {
  const auto first_norm = [](double scale, DType compute) {
    TransformerXlOptions options;
    options.common = testing::tiny_options();
    ModelBuildOptions setting = testing::tiny_setting(segment);
    setting.compute = compute;
    Trainer trainer(make_transformer_xl(options, setting),
                    TrainingOptions{},
                    Random(1),
                    {.compute = compute, .loss_scale = {.initial = scale}});
    Batch batch = batch_of(0);
    // Simulates a small part of a very large batch.
    batch.counts["tokens"] = 1 << 22;
    return trainer.step(batch).gradient_norm;
  };
  const double expected = first_norm(1, DType::f32);
  EXPECT_NEAR(first_norm(1 << 24, DType::f16), expected, 0.01 * expected);
  EXPECT_GT(std::abs(first_norm(1, DType::f16) - expected), 0.1 * expected) << "rounding alone";
}

}  // namespace
}  // namespace longspan::mixed_precision_test
