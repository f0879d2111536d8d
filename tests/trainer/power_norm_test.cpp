// Statistics of power norms, which have no gradient, through steps and checkpoints.
#include "framework/nn/power_statistics.h"
#include "framework/trainer/trainer.h"
#include "tests/models/model_testing.h"
#include "tests/support/temporary_directory.h"

namespace longspan::power_norm_test {
namespace {

constexpr std::int64_t streams = 4;
constexpr std::int64_t segment = 6;

Batch batch_of(int step) {
  return testing::batch_of_rows(
      testing::random_ids(streams, segment + 1, static_cast<std::uint64_t>(step)));
}

// The first two steps are warm-up.
Trainer make_trainer(double learning_rate = 0.1) {
  DecoderOptions options;
  options.common = testing::tiny_options(NormPosition::pre);
  options.common.norm_kind = NormKind::power;
  options.common.power.warmup = 2;
  TrainingOptions training;
  training.learning_rate = learning_rate;
  training.schedule = ScheduleKind::constant;
  training.clip_norm = 0;
  training.optimizer = {.kind = OptimizerKind::sgd};
  return Trainer(make_decoder(options, testing::tiny_setting(segment)), training, Random(1));
}

testing::Values statistics_of(const Trainer& trainer) {
  testing::Values all;
  for (const auto& each : trainer.model().parameters().power_statistics())
    for (const auto& [name, values] : each->saved())
      for (const double value : testing::values_of(values)) all.push_back(value);
  return all;
}

TEST(PowerStatistics, AreRestoredFromCheckpoint) {
  const testing::TemporaryDirectory directory;
  Trainer trainer = make_trainer();
  const testing::Values first = statistics_of(trainer);
  EXPECT_EQ(first.size(), 5u * 2 * 8);  // two norms per layer and the final norm
  for (int step = 0; step < 3; ++step) trainer.step(batch_of(step));
  EXPECT_NE(statistics_of(trainer), first);
  TrainingState state;
  trainer.save(state, {.total = streams});
  CheckpointInfo info;
  info.step = 3;
  const auto path = save_checkpoint(directory.path(), info, state, {});
  Trainer resumed = make_trainer();
  resumed.restore(Checkpoint::open(path), {.total = streams}, streams);
  EXPECT_EQ(statistics_of(resumed), statistics_of(trainer));
  for (int step = 3; step < 6; ++step)
    EXPECT_EQ(resumed.step(batch_of(step)).loss, trainer.step(batch_of(step)).loss);
  EXPECT_EQ(statistics_of(resumed), statistics_of(trainer));
}

TEST(PowerStatistics, DoNotChangeInSkippedSteps) {
  Trainer trainer = make_trainer(1e200);
  EXPECT_FALSE(trainer.step(batch_of(0)).skipped);
  const testing::Values before = statistics_of(trainer);
  EXPECT_TRUE(trainer.step(batch_of(1)).skipped);
  EXPECT_EQ(statistics_of(trainer), before);
}

TEST(PowerStatistics, DoNotChangeInProbeSteps) {
  Trainer trainer = make_trainer(), other = make_trainer();
  trainer.step(batch_of(0));
  other.step(batch_of(0));
  other.probe_step(batch_of(1));
  trainer.step(batch_of(2));
  other.step(batch_of(2));
  EXPECT_EQ(statistics_of(trainer), statistics_of(other));
}

}  // namespace
}  // namespace longspan::power_norm_test
