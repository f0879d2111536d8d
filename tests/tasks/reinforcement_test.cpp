// Reinforcement learning: validation in episodes, and learning from rewards.
#include <gtest/gtest.h>
#include <omp.h>

#include <fstream>

#include "framework/tasks/registry.h"
#include "framework/trainer/trainer.h"
#include "models/transformer_xl.h"
#include "tests/support/temporary_directory.h"

namespace longspan::reinforcement_test {
namespace {

class ReinforcementLearning : public ::testing::Test {
 protected:
  DataOptions data(const std::string& train, const std::string& validation) {
    const auto file = [&](const std::string& name, const std::string& text) -> ConfigPath {
      std::ofstream(directory_.path() / name) << text;
      return {(directory_.path() / name).string(), "data." + name, "c.yaml:1:1"};
    };
    DataOptions options;
    options.train = file("train", train);
    options.validation = file("validation", validation);
    options.batch = 16;
    options.segment = 6;
    return options;
  }

  // Passes of a single step are too small for several threads.
  void SetUp() override { omp_set_num_threads(1); }
  void TearDown() override { omp_set_num_threads(threads_); }

  int threads_ = omp_get_max_threads();
  testing::TemporaryDirectory directory_;
};

std::unique_ptr<Task> opened(const DataOptions& data, std::int64_t validation_batches = 0) {
  return reinforcement_learning_task().open(
      {.data = data, .run = {}, .validation_batches = validation_batches});
}

std::unique_ptr<Model> model_of(const Task& task, std::int64_t memory) {
  TransformerXlOptions options;
  options.common = {.layers = 2,
                    .width = 16,
                    .heads = 2,
                    .feed_forward = 32,
                    .norm = NormPosition::pre,
                    .residual = ResidualKind::gated,
                    .dropout = 0,
                    .initial_deviation = {}};
  options.memory = memory;
  return std::make_unique<Model>(ModelBuildOptions{.vocabulary = 256,
                                                   .classes = task.classes(),
                                                   .is_policy = true,
                                                   .segment = 6,
                                                   .device = Device::cpu(),
                                                   .random = Random(1)},
                                 transformer_xl_body(options),
                                 reinforcement_learning_task().readout);
}

TEST_F(ReinforcementLearning, ValidationRepeatsTheSameEpisodes) {
  const DataOptions options = data("numpad", "numpad side 3 steps 20");
  const auto task = opened(options, 5);
  const auto model = model_of(*task, 8);
  const Measurement found = *task->validate(*model);
  EXPECT_EQ(found.find("episodes"), 32) << "two of each environment";
  EXPECT_GT(*found.find("episode_reward_mean"), 0);
  EXPECT_LT(*found.find("episode_reward_mean"), 10);
  EXPECT_GT(*found.find("policy_entropy"), 1);
  EXPECT_LT(*found.find("policy_entropy"), std::log(9));
  EXPECT_EQ(found.metric_values, task->validate(*model)->metric_values);
  DataOptions greedy = options;
  greedy.rollouts.greedy = true;
  EXPECT_NE(found.metric_values, opened(greedy, 5)->validate(*model)->metric_values);
}

TEST_F(ReinforcementLearning, RejectsDifferentValidationActions) {
  const DataOptions other = data("t_maze", "memory_maze");
  EXPECT_THROW(opened(other), DataError);
}

// Success rate after training for `steps` steps, in percent.
double success_after(const DataOptions& options, std::int64_t memory, int steps) {
  const auto task = opened(options);
  TrainingOptions training;
  training.steps = steps;
  training.schedule = ScheduleKind::constant;
  training.learning_rate = 3e-3;
  training.clip_norm = 0.5;
  Trainer trainer(model_of(*task, memory), training, Random(1));
  const auto source = task->source_by(trainer.model());
  for (int step = 0; step < steps; ++step) trainer.step(source->next());
  return *task->validate(trainer.model())->find("success_rate");
}

// The fork is two segments after the sign: only a model with memory can choose the right way.
TEST_F(ReinforcementLearning, LearnsTMazeOnlyWithMemory) {
  const DataOptions options = data("t_maze length 10", "t_maze length 10");
  EXPECT_GT(success_after(options, 18, 480), 95);
  const double without = success_after(options, 0, 120);
  EXPECT_GT(without, 20);
  EXPECT_LT(without, 80);
}

}  // namespace
}  // namespace longspan::reinforcement_test
