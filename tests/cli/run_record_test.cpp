#include "launch/cli/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "framework/core/system.h"
#include "framework/training_loop/run_directory.h"
#include "tests/support/temporary_directory.h"

namespace longspan::run_record_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST(RunRecord, ReportsUnreadableCheckpoints) {
  const testing::TemporaryDirectory directory;
  std::ofstream(directory.path() / metrics_file) << "{\"step\": 10, \"loss\": 1.0}\n";
  // A symlink loop is unreadable for every user, including root.
  std::filesystem::create_symlink("checkpoints", directory.path() / "checkpoints");
  const RunRecord record = read_run_record(directory.path());
  EXPECT_EQ(record.step, 10);
  EXPECT_EQ(record.state, RunState::stopped);
  EXPECT_THAT(record.errors, Contains(HasSubstr("checkpoints: cannot be read: ")));
}

TEST(RunRecord, SuggestsRestartOnlyOnSameHost) {
  const testing::TemporaryDirectory directory;
  std::ofstream(directory.path() / metrics_file) << "{\"step\": 10, \"loss\": 1.0}\n";
  const auto ended_by = [&](const std::string& host) {
    std::ofstream(directory.path() / lock_name) << to_text(RunMark{.host = host});
    const RunRecord record = read_run_record(directory.path());
    EXPECT_EQ(record.state, RunState::killed);
    return record.ended_by;
  };
  EXPECT_THAT(ended_by(host_name()), HasSubstr("run the same command"));
  EXPECT_EQ(ended_by("elsewhere"),
            "the run was killed or is still running on elsewhere (its locks are not visible here)");
}

}  // namespace
}  // namespace longspan::run_record_test
