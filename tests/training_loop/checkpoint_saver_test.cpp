// Checkpoints that remain on disk while newer ones are being written.
#include "framework/training_loop/checkpoint_saver.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/checkpoints/checkpoint_testing.h"

namespace longspan::checkpoint_saver_test {
namespace {

double finite_loss() { return 1.0; }

TEST(CheckpointSaver, KeepsLatestCompleteCheckpointDuringAsyncSave) {
  const testing::TemporaryDirectory directory;
  const Communicator one;
  const Log silent;
  CheckpointOptions options;
  options.keep_latest = 1;
  {
    CheckpointSaver saver(options, directory.path(), one, 1, silent);
    ASSERT_TRUE(saver.save(testing::info_of(1), testing::small_state(), finite_loss));
    ASSERT_TRUE(saver.save_async(testing::info_of(2), testing::small_state(), finite_loss));
    ASSERT_TRUE(saver.confirm(1.0));
    ASSERT_TRUE(saver.save_async(testing::info_of(3), testing::small_state(), finite_loss));
    ASSERT_TRUE(saver.confirm(1.0));
    saver.remove_older();
  }  // the run ends here: step 1 is removed, the save of step 3 is incomplete
  EXPECT_EQ(steps_in(directory.path()), std::vector<std::int64_t>{2});
}

TEST(CheckpointSaver, DiscardsAsyncSaveOnNonFiniteLoss) {
  const testing::TemporaryDirectory directory;
  const Communicator one;
  const Log silent;
  CheckpointSaver saver({}, directory.path(), one, 1, silent);
  ASSERT_TRUE(saver.save(testing::info_of(1), testing::small_state(), finite_loss));
  ASSERT_TRUE(saver.save_async(testing::info_of(2), testing::small_state(), finite_loss));
  EXPECT_EQ(saver.step(), 2);
  EXPECT_FALSE(saver.confirm(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_EQ(saver.step(), 1);
  saver.finish();
  EXPECT_EQ(steps_in(directory.path()), std::vector<std::int64_t>{1});
}

}  // namespace
}  // namespace longspan::checkpoint_saver_test
