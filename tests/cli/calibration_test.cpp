#include <gtest/gtest.h>
#include <omp.h>

#include "framework/planning/machine.h"
#include "launch/cli/calibration_models.h"

namespace longspan::calibration_test {
namespace {

TEST(Calibration, MeasuresSpeedsAndTrialDurations) {
  // Threads that wait for each other are very slow when other tests occupy the cores.
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const MachineProfile machine = measure_machine({}, 1, calibration_models());
  omp_set_num_threads(threads);
  EXPECT_EQ(machine.threads, 1);
  EXPECT_GT(machine.flops, 0);
  EXPECT_GT(machine.bf16_flops, 0);
  EXPECT_GT(machine.memory_bandwidth, 0);
  EXPECT_EQ(machine.bandwidth, 0);  // one rank sends nothing
  EXPECT_GT(machine.min_trial, 0);
  EXPECT_GE(machine.max_trial, machine.min_trial);
  // Load may change while measuring; these bounds allow for it.
  EXPECT_LT(machine.max_trial, 20);
  EXPECT_GT(machine.max_trial, 0.05);
}

}  // namespace
}  // namespace longspan::calibration_test
