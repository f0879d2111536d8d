// Centroids of routing attention, which have no gradient, through steps and checkpoints.
#include <cmath>

#include "framework/trainer/trainer.h"
#include "tests/models/model_testing.h"
#include "tests/support/temporary_directory.h"

namespace longspan::centroids_test {
namespace {

constexpr std::int64_t streams = 4;
constexpr std::int64_t segment = 12;
const std::string name = "layers/0/attention/centroids";

Batch batch_of(int step) {
  return testing::batch_of_rows(
      testing::random_ids(streams, segment + 1, static_cast<std::uint64_t>(step)));
}

Trainer make_trainer(double learning_rate = 0.1) {
  DecoderOptions options;
  options.common = testing::tiny_options();
  options.common.attention = {.kinds = {"routing"}, .routing = {.clusters = 3, .decay = 0.5}};
  TrainingOptions training;
  training.learning_rate = learning_rate;
  training.schedule = ScheduleKind::constant;
  training.clip_norm = 0;
  training.optimizer = {.kind = OptimizerKind::sgd};
  return Trainer(make_decoder(options, testing::tiny_setting(segment)), training, Random(1));
}

testing::Values centroids_of(const Trainer& trainer) {
  TrainingState state;
  trainer.save(state, {.total = streams});
  for (const StateTensor& piece : state.tensors)
    if (piece.name == name) return testing::values_of(piece.tensor.clone());
  ADD_FAILURE() << "there is no " << name;
  return {};
}

TEST(EmaCentroids, AreRestoredFromCheckpoint) {
  const testing::TemporaryDirectory directory;
  Trainer trainer = make_trainer();
  const testing::Values first = centroids_of(trainer);
  for (int step = 0; step < 3; ++step) trainer.step(batch_of(step));
  EXPECT_NE(centroids_of(trainer), first);
  TrainingState state;
  trainer.save(state, {.total = streams});
  CheckpointInfo info;
  info.step = 3;
  const auto path = save_checkpoint(directory.path(), info, state, {});
  Trainer resumed = make_trainer();
  resumed.restore(Checkpoint::open(path), {.total = streams}, streams);
  EXPECT_EQ(centroids_of(resumed), centroids_of(trainer));
  for (int step = 3; step < 6; ++step)
    EXPECT_EQ(resumed.step(batch_of(step)).loss, trainer.step(batch_of(step)).loss);
  EXPECT_EQ(centroids_of(resumed), centroids_of(trainer));
}

TEST(EmaCentroids, DoNotChangeInSkippedSteps) {
  Trainer trainer = make_trainer(1e200);
  EXPECT_FALSE(trainer.step(batch_of(0)).skipped);
  const testing::Values before = centroids_of(trainer);
  EXPECT_TRUE(trainer.step(batch_of(1)).skipped);
  EXPECT_EQ(centroids_of(trainer), before);
}

TEST(EmaCentroids, DoNotChangeInProbeSteps) {
  Trainer trainer = make_trainer();
  trainer.step(batch_of(0));
  Trainer other = make_trainer();
  other.step(batch_of(0));
  other.probe_step(batch_of(1));
  trainer.step(batch_of(2));
  other.step(batch_of(2));
  EXPECT_EQ(centroids_of(trainer), centroids_of(other));
}

}  // namespace
}  // namespace longspan::centroids_test
