#include "framework/training_loop/resume.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "framework/training_loop/run_directory.h"
#include "tests/support/temporary_directory.h"

namespace longspan::resume_test {
namespace {

namespace fs = std::filesystem;

TEST(Resume, StopRequestEndsCheckpointSearch) {
  const testing::TemporaryDirectory temporary;
  const fs::path& path = temporary.path();
  {
    const RunDirectory directory(path.string(), {});
    TrainingState state;
    state.add("weight", Tensor::zeros({3}, DType::f32, Device::cpu()), true);
    save_checkpoint(directory.checkpoints(),
                    {.run_id = "run", .step = 4, .layout = {}, .configuration = "model: {}\n"},
                    state,
                    {});
    const RunConfig settings;
    TrainingRunText text;
    text.compare = [](const std::string&) { return ConfigurationChange{}; };
    const Communicator world;
    const Log log;
    const StopRequest stop;
    const ResumeContext run = {settings, text, directory, world, log, stop};
    EXPECT_EQ(resolve_resume_checkpoint(run), directory.checkpoints() / step_name(4));
    std::raise(SIGUSR1);
    try {
      resolve_resume_checkpoint(run);
      ADD_FAILURE() << "it was not stopped";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::stopped) << error.what();
    }
  }
}

TEST(Resume, AfterDivergencePrefersOwnCheckpoints) {
  EXPECT_EQ(resume_after_divergence(ConfigPath("auto"), false), "auto");
  EXPECT_EQ(resume_after_divergence(ConfigPath("never"), false), "auto");
  EXPECT_EQ(resume_after_divergence(ConfigPath("never"), true), "auto");
  EXPECT_EQ(resume_after_divergence(ConfigPath("../other"), false), "../other");
  EXPECT_EQ(resume_after_divergence(ConfigPath("../other"), true), "auto");
}

class SkippedDataFrom : public ::testing::Test {
 protected:
  SkippedDataFrom() { file_.add(9, 12); }

  SkippedData from(const fs::path& path, const std::string& saved) {
    return skipped_data_from(
        {settings_, text_, directory_, world_, log_, stop_}, path, saved, "0123");
  }
  fs::path own(std::int64_t step) {
    const fs::path path = directory_.checkpoints() / step_name(step);
    fs::create_directories(path);
    return path;
  }
  fs::path aside() const { return temporary_.path() / "run/skipped_batches.json.before-0123"; }

  testing::TemporaryDirectory temporary_;
  RunDirectory directory_{(temporary_.path() / "run").string(), {}};
  SkippedData file_{.times = 1, .before = {}};
  RunConfig settings_;
  TrainingRunText text_;
  Communicator world_;
  Log log_;
  StopRequest stop_;
};

TEST_F(SkippedDataFrom, ReadsFileForOwnCheckpoint) {
  directory_.write("skipped_batches.json", file_.to_json());
  EXPECT_EQ(from(own(8), "").before, file_.before);
  EXPECT_EQ(from(own(8) / "", R"({"times": 7, "before": {"4": 1}})").before, file_.before);
  EXPECT_FALSE(fs::exists(aside()));
}

TEST_F(SkippedDataFrom, ReadsCheckpointFromAnotherDirectory) {
  const fs::path other = temporary_.path() / "other/checkpoints" / step_name(8);
  fs::create_directories(other);
  directory_.write("skipped_batches.json", file_.to_json());
  const SkippedData restored = from(other, R"({"times": 7, "before": {"4": 1}})");
  EXPECT_EQ(restored.times, 7);
  EXPECT_TRUE(fs::exists(aside()));
  EXPECT_EQ(read_skipped_data(directory_, world_).before, restored.before);
  // Older checkpoints have no scalar.
  EXPECT_EQ(from(other, "").times, 0);
  EXPECT_FALSE(fs::exists(directory_.skipped()));
  EXPECT_THROW(from(other, "{}"), DataError);
}

TEST_F(SkippedDataFrom, IsEmptyForANewRun) {
  directory_.write("skipped_batches.json", file_.to_json());
  EXPECT_EQ(from({}, "").times, 0);
  EXPECT_TRUE(fs::exists(aside()));
  EXPECT_FALSE(fs::exists(directory_.skipped()));
}

TEST(RunDirectory, LeavesNoLockIfCheckpointsCannotBeCreated) {
  const testing::TemporaryDirectory temporary;
  const fs::path checkpoints = temporary.path() / "run" / checkpoints_name;
  fs::create_directories(checkpoints.parent_path());
  std::ofstream(checkpoints) << "a file";
  EXPECT_THROW(RunDirectory((temporary.path() / "run").string(), {}), ConfigurationError);
  EXPECT_FALSE(fs::exists(checkpoints.parent_path() / lock_name));
  fs::remove(checkpoints);
  EXPECT_NO_THROW(RunDirectory((temporary.path() / "run").string(), {}));
}

TEST(RunDirectory, KeepsUserSymlinkIfUnused) {
  const testing::TemporaryDirectory temporary;
  const fs::path run = temporary.path() / "run";
  fs::create_directories(temporary.path() / "large");
  fs::create_directories(run);
  fs::create_symlink("../large", run / checkpoints_name);
  RunDirectory(run.string(), {}).remove_if_unused();
  EXPECT_TRUE(fs::is_symlink(run / checkpoints_name));
  EXPECT_FALSE(fs::exists(run / lock_name));
}

// RLIMIT_FSIZE makes writes fail, as a full disk does.
TEST(RunDirectory, KeepsRunMarkIfDiskIsFull) {
  const testing::TemporaryDirectory temporary;
  const fs::path run = temporary.path() / "run";
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  {
    RunDirectory directory(run.string(), {});
    directory.mark_running({.data = 3});
    const rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  }
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  const auto mark = run_mark(run);
  ASSERT_TRUE(mark);
  EXPECT_EQ(mark->layout.data, 3);
  EXPECT_FALSE(mark->has_ended);
  EXPECT_EQ(to_text({.has_ended = true}).size(), to_text({.host = "a"}).size());
}

TEST(RunDirectory, WaitsForLockHeldByEndingRun) {
  const testing::TemporaryDirectory temporary;
  const fs::path run = temporary.path() / "run";
  fs::create_directories(run);
  Descriptor held(::open((run / ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  std::jthread ending([&held] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    held = Descriptor();
  });
  EXPECT_NO_THROW(RunDirectory(run.string(), {}));
}

TEST(RunDirectory, RemovesFilesLeftByAKilledStart) {
  const testing::TemporaryDirectory temporary;
  const fs::path checkpoints = temporary.path() / "run" / checkpoints_name;
  fs::create_directories(checkpoints);
  std::ofstream(checkpoints / ".seen-by-all-0123456789abcdef");
  const RunDirectory directory((temporary.path() / "run").string(), {});
  EXPECT_TRUE(fs::is_empty(checkpoints));
}

}  // namespace
}  // namespace longspan::resume_test
