#include "launch/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_directory.h"

namespace longspan::run_record_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST(RunRecord, TellsOfCheckpointsThatCannotBeReadBesideWhatItKnows) {
  const testing::TemporaryDirectory directory;
  std::ofstream(directory.path() / metrics_file) << "{\"step\": 10, \"loss\": 1.0}\n";
  // A circle is closed to everybody, as another person's folder of mode 0700 is to most.
  std::filesystem::create_symlink("checkpoints", directory.path() / "checkpoints");
  const RunRecord record = read_run_record(directory.path());
  EXPECT_EQ(record.step, 10);
  EXPECT_EQ(record.state, RunState::stopped);
  EXPECT_THAT(record.troubles, Contains(HasSubstr("checkpoints: cannot be read: ")));
}

}  // namespace
}  // namespace longspan::run_record_test
