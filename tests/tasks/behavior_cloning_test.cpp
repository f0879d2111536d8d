// Behavior cloning: validation in episodes, and errors for incompatible environments.
#include <gtest/gtest.h>

#include <fstream>

#include "framework/tasks/registry.h"
#include "models/transformer_xl.h"
#include "tests/support/temporary_directory.h"

namespace longspan::behavior_cloning_test {
namespace {

class BehaviorCloning : public ::testing::Test {
 protected:
  ConfigPath file(const std::string& name, const std::string& text) {
    std::ofstream(directory_.path() / name) << text;
    return {(directory_.path() / name).string(), "data.train", "c.yaml:1:1"};
  }
  DataOptions data(const std::string& train, const std::string& validation) {
    DataOptions options;
    options.train = file("train.txt", train);
    options.validation = file("validation.txt", validation);
    options.batch = 4;
    options.segment = 6;
    return options;
  }

  testing::TemporaryDirectory directory_;
};

std::unique_ptr<Task> opened(const DataOptions& data, std::int64_t validation_batches = 0) {
  return behavior_cloning_task().open(
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
                                                   .segment = 6,
                                                   .device = Device::cpu(),
                                                   .random = Random(1)},
                                 transformer_xl_body(options),
                                 behavior_cloning_task().readout);
}

TEST_F(BehaviorCloning, ValidationReportsEpisodeAccuracy) {
  const DataOptions options = data("numpad", "numpad side 3 steps 20");
  const auto task = opened(options, 5);
  const auto model = model_of(*task, 8);
  const Measurement found = *task->validate(*model);
  EXPECT_EQ(found.find("episodes"), 8) << "two whole episodes of each stream";
  EXPECT_GT(*found.find("loss"), 1);
  EXPECT_LT(*found.find("accuracy"), 50);
  EXPECT_EQ(found.metric_values, task->validate(*model)->metric_values)
      << "the same episodes each time";
}

std::string error_message(const std::function<void()>& act) {
  try {
    act();
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(BehaviorCloning, ReportsIncompatibleOptions) {
  const DataOptions other = data("t_maze", "memory_maze");
  EXPECT_NE(error_message([&] { opened(other); })
                .find("expected the training actions left, right, found down, left, right, up in a "
                      "memory maze of 4 x 4 cells"),
            std::string::npos);
  DataOptions missing = other;
  missing.train = ConfigPath{"/nowhere/world.txt", "data.train", "c.yaml:1:1"};
  EXPECT_EQ(error_message([&] { opened(missing); }),
            "c.yaml:1:1: data.train: /nowhere/world.txt: cannot be opened for reading: No such "
            "file or directory");
  DataOptions words = other;
  words.tokenizer = TokenizerKind::characters;
  EXPECT_EQ(behavior_cloning_task().problem(words),
            "data.tokenizer.type: expected byte with run.task: behavior_cloning, found char");
}

TEST_F(BehaviorCloning, WritesAnActionForEachStep) {
  const DataOptions options = data("t_maze", "t_maze");
  const auto task = opened(options);
  const auto model = model_of(*task, 8);
  const std::vector<std::string> lines = {"L.?", "", "R"};
  const LabelSet actions({"left", "right"});
  const std::vector<std::string> written =
      behavior_cloning_task().write({.model = *model,
                                     .tokenizer = task->tokenizer(),
                                     .labels = actions,
                                     .data = options,
                                     .lines = lines,
                                     .place = {}});
  ASSERT_EQ(written.size(), 3u);
  EXPECT_EQ(std::ranges::count(written[0], ' '), 2);
  EXPECT_EQ(written[1], "");
  EXPECT_TRUE(written[2] == "left" || written[2] == "right");
}

// Lines are read in segments of data.seq_length, as in training and validation.
TEST_F(BehaviorCloning, ReadsLinesInSegments) {
  const DataOptions options = data("t_maze", "t_maze");
  const auto task = opened(options);
  const std::string line = "L..R.?.L?.R.L?";
  const LabelSet actions({"left", "right"});
  const auto written = [&](const Model& model, const std::vector<std::string>& lines) {
    std::string all;
    for (const std::string& found : behavior_cloning_task().write({.model = model,
                                    .tokenizer = task->tokenizer(),
                                    .labels = actions,
                                    .data = options,
                                    .lines = lines,
                                    .place = {}}))
      all += (all.empty() ? "" : " ") + found;
    return all;
  };
  const auto forgetful = model_of(*task, 0);
  EXPECT_EQ(written(*forgetful, {line}),
            written(*forgetful, {line.substr(0, 6), line.substr(6, 6), line.substr(12)}));
  const auto model = model_of(*task, 6);
  EXPECT_EQ(std::ranges::count(written(*model, {line}), ' '), std::ssize(line) - 1);
}

}  // namespace
}  // namespace longspan::behavior_cloning_test
