// State after steps without a finite loss.
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "framework/trainer/trainer.h"
#include "tests/models/model_testing.h"
#include "tests/support/temporary_directory.h"

namespace longspan::skipped_steps_test {
namespace {

constexpr std::int64_t streams = 4;
constexpr std::int64_t segment = 5;

Batch batch_of(int step) {
  return testing::batch_of_rows(
      testing::random_ids(streams, segment + 1, static_cast<std::uint64_t>(step)));
}

// With the rate `ruinous` the first update leaves weights without a finite loss.
Trainer make_trainer(double learning_rate) {
  TransformerXlOptions options;
  options.common = testing::tiny_options();
  options.memory = 6;
  TrainingOptions training;
  training.learning_rate = learning_rate;
  training.schedule = ScheduleKind::constant;
  training.clip_norm = 0;
  training.consecutive_skips = 3;
  training.optimizer = {.kind = OptimizerKind::sgd, .momentum = 0.5};
  return Trainer(make_transformer_xl(options, testing::tiny_setting(segment)), training, Random(1));
}

constexpr double ruinous = 1e200;

std::map<std::string, testing::Values> tensors_of(const Trainer& trainer) {
  TrainingState state;
  trainer.save(state, {.total = streams});
  std::map<std::string, testing::Values> all;
  for (const StateTensor& piece : state.tensors)
    all[piece.name] = testing::values_of(piece.tensor.clone());
  return all;
}

TEST(SkippedSteps, DoNotChangeWeightsOptimizerOrMemory) {
  Trainer trainer = make_trainer(ruinous);
  EXPECT_TRUE(std::isfinite(trainer.step(batch_of(0)).loss));
  const auto before = tensors_of(trainer);
  EXPECT_TRUE(before.contains("mems/0"));
  EXPECT_TRUE(before.contains("optimizer/momentum_buffer/embedding/weight"));
  const StepResult result = trainer.step(batch_of(1));
  EXPECT_TRUE(result.skipped);
  EXPECT_FALSE(std::isfinite(result.loss));
  EXPECT_EQ(tensors_of(trainer), before);
  EXPECT_EQ(trainer.steps(), 2);
}

TEST(SkippedSteps, CountIsRestoredFromCheckpoint) {
  const testing::TemporaryDirectory directory;
  Trainer trainer = make_trainer(ruinous);
  for (int step = 0; step < 3; ++step) trainer.step(batch_of(step));
  TrainingState state;
  trainer.save(state, {.total = streams});
  CheckpointInfo info;
  info.step = 3;
  const auto path = save_checkpoint(directory.path(), info, state, {});
  Trainer resumed = make_trainer(ruinous);
  resumed.restore(Checkpoint::open(path), {.total = streams}, streams);
  EXPECT_EQ(resumed.skipped(), 2);
  EXPECT_THROW(resumed.step(batch_of(3)), DivergedError);
}

TEST(SkippedSteps, ReportLossBeforeDivergenceError) {
  Trainer trainer = make_trainer(ruinous);
  std::vector<double> losses;
  StepRequest request;
  request.after_loss = [&](double loss) { losses.push_back(loss); };
  for (int step = 0; step < 3; ++step) trainer.step(batch_of(step), request);
  EXPECT_THROW(trainer.step(batch_of(3), request), DivergedError);
  ASSERT_EQ(losses.size(), 4u);
  EXPECT_TRUE(std::isfinite(losses[0]));
  for (std::size_t step = 1; step < 4; ++step) EXPECT_FALSE(std::isfinite(losses[step]));
}

TEST(ProbeStep, MatchesStepWithoutSideEffects) {
  Trainer trainer = make_trainer(0.1);
  trainer.step(batch_of(0));
  const auto before = tensors_of(trainer);
  const StepResult probed = trainer.probe_step(batch_of(1));
  EXPECT_TRUE(probed.can_continue());
  EXPECT_EQ(tensors_of(trainer), before);
  EXPECT_EQ(trainer.steps(), 1);
  const StepResult result = trainer.step(batch_of(1));
  EXPECT_EQ(result.loss, probed.loss);
  EXPECT_EQ(result.gradient_norm, probed.gradient_norm);
  Trainer ruined = make_trainer(ruinous);
  ruined.step(batch_of(0));
  EXPECT_FALSE(ruined.probe_step(batch_of(0)).can_continue());
  EXPECT_EQ(ruined.skipped(), 0);
}

TEST(Trainer, ReportsWhetherItsWeightsAreFinite) {
  Trainer trainer = make_trainer(0.1);
  trainer.step(batch_of(0));
  EXPECT_TRUE(trainer.has_finite_weights());
  const auto before = tensors_of(trainer);
  EXPECT_TRUE(trainer.has_finite_weights());
  EXPECT_EQ(tensors_of(trainer), before);
  for (const double value : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    const Tensor master = trainer.model().parameters().trained().back()->shard_master;
    const double was = master.span<double>().back();
    master.span<double>().back() = value;
    EXPECT_FALSE(trainer.has_finite_weights());
    master.span<double>().back() = was;
  }
  EXPECT_TRUE(trainer.has_finite_weights());
}

}  // namespace
}  // namespace longspan::skipped_steps_test
