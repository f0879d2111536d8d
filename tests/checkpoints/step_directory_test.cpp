// Names of steps, leftovers, removal and fallback.
#include "checkpoints/step_directory.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>

#include "checkpoints/files.h"
#include "tests/checkpoints/checkpoint_testing.h"

namespace longspan::testing::step_directory_test {
namespace {

std::set<std::string> names_in(const std::filesystem::path& directory) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.insert(entry.path().filename().string());
  return names;
}

std::filesystem::path save(const std::filesystem::path& directory,
                           std::int64_t step,
                           std::uint64_t seed = 1) {
  return save_checkpoint(directory, info_of(step), small_state(seed), {});
}

void damage(const std::filesystem::path& step) {
  const auto file = step / "rank-00000.h5";
  flip_bit(file, std::filesystem::file_size(file) / 2, 3);
}

TEST(StepDirectory, ParsesStepNames) {
  EXPECT_EQ(step_name(500), "step-000000500");
  EXPECT_EQ(step_entry("step-000000500")->step, 500);
  EXPECT_EQ(step_entry("step-000000500.tmp-a-b")->use, StepUse::temporary);
  EXPECT_EQ(step_entry("step-000000500.tmp-a-b")->id, "a-b");
  EXPECT_EQ(step_entry("step-000000500.replaced-1")->use, StepUse::replaced);
  for (const char* name : {"step-500",
                           "step-0000000500",
                           "step-00000050x",
                           "step--00000500",
                           "step-000000500.tmp-",
                           "step-000000500.old",
                           "best",
                           ""})
    EXPECT_FALSE(step_entry(name)) << name;
}

TEST(StepDirectory, ListsOnlyDirectories) {
  const TemporaryDirectory directory;
  EXPECT_TRUE(steps_in(directory.path() / "none").empty());
  std::filesystem::create_directory(directory.path() / "step-000000020");
  std::filesystem::create_directory(directory.path() / "step-000000003");
  std::filesystem::create_directory(directory.path() / "best");
  std::filesystem::create_directory_symlink("best", directory.path() / "step-000000004");
  write_bytes(directory.path() / "step-000000005", "");
  EXPECT_EQ(steps_in(directory.path()), (std::vector<std::int64_t>{3, 20}));
}

TEST(StepDirectory, RemovesOldestStepsButKeepsBest) {
  const TemporaryDirectory directory;
  const auto make = [&](std::int64_t step) {
    std::filesystem::create_directory(directory.path() / step_name(step));
    write_bytes(directory.path() / step_name(step) / "manifest.json", "content");
  };
  for (const std::int64_t step : {10, 20, 30, 40, 50}) make(step);
  remove_old_checkpoints(directory.path(), 50, 3);
  EXPECT_EQ(steps_in(directory.path()), (std::vector<std::int64_t>{30, 40, 50}));
  remove_old_checkpoints(directory.path(), 50, 3);
  EXPECT_EQ(steps_in(directory.path()), (std::vector<std::int64_t>{30, 40, 50}));
  // After a fallback the newer steps are not counted and remain.
  make(35);
  remove_old_checkpoints(directory.path(), 35, 1);
  EXPECT_EQ(names_in(directory.path()),
            (std::set<std::string>{"step-000000035", "step-000000040", "step-000000050"}));
  EXPECT_THROW(remove_old_checkpoints(directory.path(), 35, 0), Failure);
  // The best step is not counted, regardless of its age.
  for (const std::int64_t step : {10, 20}) make(step);
  remove_old_checkpoints(directory.path(), 50, 2, 10);
  EXPECT_EQ(steps_in(directory.path()), (std::vector<std::int64_t>{10, 40, 50}));
}

TEST(StepDirectory, ReportsUnreadableDirectory) {
  const TemporaryDirectory directory;
  const auto loop = directory.path() / "loop";
  std::filesystem::create_symlink("loop", loop);
  const std::string expected =
      loop.string() + ": cannot be read: Too many levels of symbolic links";
  EXPECT_EQ(message_of<DataError>([&] { steps_in(loop); }), expected);
  EXPECT_EQ(message_of<DataError>([&] { latest_valid_checkpoint(loop); }), expected);
  EXPECT_EQ(message_of<DataError>([&] { remove_old_checkpoints(loop, 5, 1); }), expected);
}

TEST(StepDirectory, SaveRemovesLeftoversFromKilledRuns) {
  const TemporaryDirectory directory;
  const auto& path = directory.path();
  std::filesystem::create_directories(path / "step-000000007.tmp-dead/folder");
  write_bytes(path / "step-000000007.tmp-dead/rank-00000.h5", "half");
  write_bytes(path / "step-000000007.lock-dead", "");
  std::filesystem::create_directory(path / "step-000000003.removed-dead");
  write_bytes(path / "notes.txt", "mine");
  save(path, 8);
  EXPECT_EQ(names_in(path), (std::set<std::string>{"notes.txt", "step-000000008"}));
}

TEST(StepDirectory, SaveKeepsFilesLockedByLiveRun) {
  const TemporaryDirectory directory;
  const auto& path = directory.path();
  LockFile lock = LockFile::create(path / "step-000000007.lock-live");
  ASSERT_TRUE(lock.held());
  std::filesystem::create_directory(path / "step-000000007.tmp-live");
  save(path, 8);
  EXPECT_EQ(names_in(path),
            (std::set<std::string>{
                "step-000000007.lock-live", "step-000000007.tmp-live", "step-000000008"}));
  lock.remove();
  EXPECT_EQ(latest_valid_checkpoint(path).found->step, 8);
  EXPECT_EQ(names_in(path), (std::set<std::string>{"step-000000008"}));
}

TEST(StepDirectory, TakesAbandonedLockOnlyOnce) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "step-000000007.lock-dead";
  ASSERT_TRUE(LockFile::acquire_abandoned(path));
  EXPECT_FALSE(LockFile::acquire_abandoned(path)->held());  // no such file
  write_bytes(path, "");
  std::optional<LockFile> taken = LockFile::acquire_abandoned(path);
  ASSERT_TRUE(taken && taken->held());
  EXPECT_FALSE(LockFile::acquire_abandoned(path));
  taken->remove();
  EXPECT_EQ(names_in(directory.path()), std::set<std::string>());
}

TEST(StepDirectory, RestoresStepMovedAside) {
  const TemporaryDirectory directory;
  std::filesystem::rename(save(directory.path(), 5),
                          directory.path() / "step-000000005.replaced-dead");
  EXPECT_EQ(latest_valid_checkpoint(directory.path()).found->step, 5);
  EXPECT_EQ(names_in(directory.path()), (std::set<std::string>{"step-000000005"}));
}

TEST(StepDirectory, UncommittedSaveLeavesNothing) {
  const TemporaryDirectory directory;
  {
    CheckpointSave unfinished(directory.path(), info_of(5), {});
    unfinished.write(small_state());
    EXPECT_EQ(names_in(directory.path()).size(), 2u);
  }
  EXPECT_TRUE(names_in(directory.path()).empty());
}

TEST(StepDirectory, SaveReplacesCorruptStep) {
  const TemporaryDirectory directory;
  damage(save(directory.path(), 5, 1));
  const auto path = save(directory.path(), 5, 2);
  EXPECT_EQ(names_in(directory.path()), (std::set<std::string>{"step-000000005"}));
  TrainingState read = blank(small_state(2));
  Checkpoint::open(path).read(read);
  expect_equal(read, small_state(2));
}

TEST(StepDirectory, FallsBackToNewestValidStep) {
  const TemporaryDirectory directory;
  for (const std::int64_t step : {10, 20, 30, 40}) save(directory.path(), step);
  damage(directory.path() / step_name(40));
  std::filesystem::remove(directory.path() / step_name(30) / "manifest.json");
  // Reads do not open the view.
  std::filesystem::remove(directory.path() / step_name(20) / "view.h5");
  const CheckpointSearch search = latest_valid_checkpoint(directory.path());
  ASSERT_TRUE(search.found);
  EXPECT_EQ(search.found->step, 20);
  EXPECT_EQ(search.found->path, directory.path() / step_name(20));
  ASSERT_EQ(search.skipped.size(), 2u);
  EXPECT_EQ(search.skipped[0],
            (directory.path() / step_name(40) / "rank-00000.h5").string() +
                ": is corrupt: hash differs from the manifest");
  EXPECT_EQ(search.skipped[1],
            (directory.path() / step_name(30) / "manifest.json").string() + ": no such file");

  EXPECT_FALSE(latest_valid_checkpoint(directory.path() / "none").found);
}

TEST(StepDirectory, KilledSaveLeavesLastGoodStep) {
  const TemporaryDirectory directory;
  save(directory.path(), 1);
  const Random random(21);
  std::int64_t last = 1;
  for (std::uint64_t round = 0; round < 20; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (std::int64_t step = last + 1;; ++step) save(directory.path(), step, 1);
    }
    usleep(random.word(round) % 60000);
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    const CheckpointSearch search = latest_valid_checkpoint(directory.path());
    ASSERT_TRUE(search.found);
    EXPECT_TRUE(search.skipped.empty()) << search.skipped.front();
    EXPECT_GE(search.found->step, last);
    last = search.found->step;
    // Only complete steps remain.
    EXPECT_EQ(names_in(directory.path()).size(), steps_in(directory.path()).size());
  }
  TrainingState read = blank(small_state());
  Checkpoint::open(directory.path() / step_name(last)).read(read);
  expect_equal(read, small_state());
}

}  // namespace
}  // namespace longspan::testing::step_directory_test
