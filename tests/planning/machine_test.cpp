#include "framework/planning/machine.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "framework/core/error.h"
#include "tests/data/temporary_file.h"

namespace longspan::machine_test {
namespace {

MachineProfile measured(int ranks, int threads) {
  return {.name = "measured",
          .memory = 64,
          .flops = 80,
          .bf16_flops = 160,
          .f16_flops = 40,
          .memory_bandwidth = 16,
          .bandwidth = 8,
          .ranks = ranks,
          .threads = threads,
          .min_trial = 0.875,
          .max_trial = 1.25};
}

TEST(MachineProfile, DividesSpeedAmongMoreRanks) {
  const MachineProfile machine = shared_among(measured(1, 4), 8, 1);
  EXPECT_EQ(machine.flops, 10);  // one eighth of 4 cores, although with 1 of 4 threads
  EXPECT_EQ(machine.bf16_flops, 20);
  EXPECT_EQ(machine.f16_flops, 5);
  EXPECT_EQ(machine.memory_bandwidth, 2);
  EXPECT_EQ(machine.bandwidth, 1);
  EXPECT_EQ(shared_among(measured(1, 4), 4, 1).flops, 20);
  EXPECT_EQ(shared_among(measured(1, 4), 2, 2).flops, 40);
}

TEST(MachineProfile, ScalesSpeedForFewerRanks) {
  EXPECT_EQ(shared_among(measured(4, 1), 1, 4).flops, 320);
  EXPECT_EQ(shared_among(measured(4, 1), 2, 2).flops, 160);
  EXPECT_EQ(shared_among(measured(4, 1), 2, 2).bandwidth, 16);
}

TEST(MachineProfile, ScalesSpeedWithThreadsPerRank) {
  EXPECT_EQ(shared_among(measured(1, 4), 1, 1).flops, 20);
  EXPECT_EQ(shared_among(measured(4, 1), 1, 1).flops, 80);
  EXPECT_EQ(shared_among(measured(2, 2), 2, 2).flops, 80);
}

TEST(MachineProfile, SpeedDependsOnDtype) {
  EXPECT_EQ(measured(1, 1).flops_of(DType::f32), 80);
  EXPECT_EQ(measured(1, 1).flops_of(DType::bf16), 160);
  EXPECT_EQ(measured(1, 1).flops_of(DType::f16), 40);
}

TEST(MachineProfile, RoundTripsThroughFile) {
  const TemporaryFile file("");
  write_machine(measured(3, 5), file.path());
  const MachineProfile machine = read_machine(file.path());
  EXPECT_EQ(machine.name, "measured");
  EXPECT_EQ(machine.bf16_flops, 160);
  EXPECT_EQ(machine.f16_flops, 40);
  EXPECT_EQ(machine.ranks, 3);
  EXPECT_EQ(machine.threads, 5);
  EXPECT_EQ(machine.min_trial, 0.875);
  EXPECT_EQ(machine.max_trial, 1.25);
  write_machine(measured(1, 0), file.path());
  EXPECT_NE(message_of<DataError>([&] {
              read_machine(file.path());
            }).find("threads: expected at least 1, found 0"),
            std::string::npos);
  file.write("{\"name\": \"of an earlier version\"}");
  EXPECT_NE(message_of<DataError>([&] { read_machine(file.path()); }).find("plan --calibrate"),
            std::string::npos);
}

TEST(MachineProfile, ReportsWhyFileCannotBeReadOrWritten) {
  const TemporaryFile file("{\"name\": ");
  const auto problem = [](const std::string& path) {
    return message_of<DataError>([&] { read_machine(path); });
  };
  EXPECT_EQ(problem("/nowhere/machine.json"),
            "/nowhere/machine.json: cannot be opened for reading: No such file or directory");
  EXPECT_NE(problem("/tmp").find("/tmp: expected a regular file"), std::string::npos);
  EXPECT_NE(problem(file.path()).find(": invalid machine file: parse error at"), std::string::npos);
  EXPECT_EQ(
      message_of<Failure>([] { write_machine(measured(1, 1), "/proc/nowhere/machine.json"); }),
      "/proc/nowhere/machine.json: cannot be written: No such file or directory");
}

TEST(ThreadsLeft, FollowsTightestCgroupLimit) {
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / fmt::format("longspan-groups-{}", getpid());
  const auto put = [&](const std::string& group, const char* most, const char* now) {
    std::filesystem::create_directories(root / group);
    std::ofstream(root / group / "pids.max") << most;
    std::ofstream(root / group / "pids.current") << now;
  };
  put("job/rank", "max\n", "3\n");
  put("job", "64\n", "24\n");
  put("pids/job", "50\n", "20\n");
  const TemporaryFile second("0::/job/rank\n"), first("3:cpu:/job\n7:pids:/job\n0::/\n");
  EXPECT_EQ(threads_left(second.path(), root), 40);
  EXPECT_EQ(threads_left(first.path(), root), 30);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace longspan::machine_test
