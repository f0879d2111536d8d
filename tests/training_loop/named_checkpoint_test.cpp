#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <fstream>

#include "framework/training_loop/best_step.h"
#include "framework/training_loop/loading.h"
#include "framework/training_loop/run_directory.h"
#include "tests/support/temporary_directory.h"

namespace longspan::named_checkpoint_test {
namespace {

namespace fs = std::filesystem;

class NamedCheckpointTest : public ::testing::Test {
 protected:
  NamedCheckpointTest() {
    for (const char* run : {"run", "other"}) {
      fs::create_directory(directory_ / run);
      for (const std::int64_t step : {5, 80}) save(run, step);
    }
    fs::create_directories(directory_ / "empty" / "checkpoints");
  }

  fs::path save(const fs::path& run, std::int64_t step) const {
    TrainingState state;
    state.add("weight", Tensor::zeros({3}, DType::f32, Device::cpu()), true);
    return save_checkpoint(directory_ / run / "checkpoints",
                           {.run_id = "run", .step = step, .layout = {}, .configuration = ""},
                           state,
                           {});
  }
  fs::path step(const char* run, std::int64_t number) const {
    return directory_ / run / "checkpoints" / step_name(number);
  }
  fs::path found(const fs::path& name) const {
    return find_checkpoint(name.string(), directory_ / "run", {}).path;
  }
  std::string error_message(const fs::path& name, const char* run = "run") const {
    try {
      find_checkpoint(name.string(), directory_ / run, {});
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  }

  const testing::TemporaryDirectory temporary_;
  const fs::path& directory_ = temporary_.path();
};

TEST_F(NamedCheckpointTest, FindsStepByDirectoryNameOrNumber) {
  EXPECT_EQ(found(step("other", 5)), step("other", 5));
  EXPECT_EQ(found("step-000000005"), step("run", 5));
  EXPECT_EQ(found("80"), step("run", 80));
  EXPECT_EQ(found("000000005"), step("run", 5));
  fs::rename(step("other", 5), directory_ / "best");  // a name that the user chose
  EXPECT_EQ(found(directory_ / "best"), directory_ / "best");
}

TEST_F(NamedCheckpointTest, RunResolvesToNewestReadableStep) {
  for (const fs::path& name :
       {directory_ / "other", directory_ / "other/checkpoints", directory_ / "other/"})
    EXPECT_EQ(found(name), directory_ / "other/checkpoints" / step_name(80)) << name;
  fs::resize_file(step("other", 80) / "manifest.json", 10);
  const NamedCheckpoint older =
      find_checkpoint((directory_ / "other").string(), directory_ / "run", {});
  EXPECT_EQ(older.path, step("other", 5));
  EXPECT_EQ(older.skipped.size(), 1u);
  // A step that is named explicitly has no fallback.
  EXPECT_EQ(found(step("other", 80)), step("other", 80));
}

TEST_F(NamedCheckpointTest, ReportsMissingCheckpoints) {
  EXPECT_EQ(error_message("81"),
            (directory_ / "run/checkpoints").string() +
                ": no checkpoint step-000000081; 2 steps are saved there, the newest is "
                "step-000000080");
  EXPECT_EQ(error_message("step-000000081", "empty"),
            (directory_ / "empty/checkpoints").string() +
                ": no checkpoint step-000000081; no step is saved there");
  EXPECT_EQ(error_message(directory_ / "empty"),
            (directory_ / "empty/checkpoints").string() + ": no checkpoint yet");
  fs::remove(step("other", 5) / "manifest.json");
  fs::remove(step("other", 80) / "manifest.json");
  EXPECT_NE(error_message(directory_ / "other").find("no valid checkpoint; the newest: "),
            std::string::npos);
  EXPECT_TRUE(error_message("nowhere").starts_with("nowhere: no such checkpoint"));
  EXPECT_TRUE(error_message("1234567890").starts_with("1234567890: no such checkpoint"));
  // The message starts with the location of the key that names the checkpoint.
  try {
    find_checkpoint({"81", "checkpoint.resume_from", "a.yaml:3:5"}, directory_ / "run", {});
  } catch (const DataError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("a.yaml:3:5: ")) << error.what();
  }
}

TEST_F(NamedCheckpointTest, ReportsRunningStateAndLastLoggedStep) {
  const fs::path run = directory_ / "run";
  EXPECT_FALSE(is_running(run));
  const int lock = ::open((run / ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  EXPECT_TRUE(is_running(run));
  ::close(lock);
  EXPECT_FALSE(is_running(run));
  EXPECT_EQ(last_logged_step(run), 0);
  std::ofstream(run / "metrics.jsonl") << "{\"step\": 3, \"loss\": 1.0}\n{\"step\": 4, \"lo";
  EXPECT_EQ(last_logged_step(run), 3);
  std::ofstream(run / "metrics.jsonl") << "something else\n";
  EXPECT_EQ(last_logged_step(run), 0);
}

TEST_F(NamedCheckpointTest, ResolvesBestFromNewestCheckpoint) {
  EXPECT_NE(error_message("best").find("step-000000080: no best checkpoint"), std::string::npos)
      << error_message("best");
  TrainingState state;
  state.add("weight", Tensor::zeros({3}, DType::f32, Device::cpu()), true);
  BestTracker best({"loss", false});
  best.add(5, {.metric_values = {{"loss", 2, ""}}});
  best.save(state.scalars);
  save_checkpoint(directory_ / "run" / "checkpoints",
                  {.run_id = "run", .step = 90, .layout = {}, .configuration = ""},
                  state,
                  {});
  EXPECT_EQ(found("best"), step("run", 5));
  fs::remove_all(step("run", 5));
  EXPECT_NE(error_message("best").find("no checkpoint step-000000005"), std::string::npos);
}

}  // namespace
}  // namespace longspan::named_checkpoint_test
